package disk

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

const (
	defaultSector = 512
	// entriesOfTable is the number of partitions in a table that sgdisk makes.
	entriesOfTable = 128
	// entrySize is that of an entry, in bytes, and maxEntries the longest table that is planned.
	entrySize  = 128
	maxEntries = 16384
	// mebibyte is what sgdisk aligns partitions to, in bytes.
	mebibyte = 1 << 20
	// smallestAdvanced is the size from which sgdisk aligns to at least minAlign sectors, as a disk of
	// this size may have physical sectors of 4 KiB.
	smallestAdvanced = 625142448
	minAlign         = 8
)

// GPT is a partition table in memory, which changes as sgdisk 1.0.9 changes one (gptfdisk, gpt.cc
// and gptcl.cc): Ignition runs sgdisk. All numbers are logical sectors.
type GPT struct {
	First, Last int64
	Align       int64
	// Entries is the number of partitions that the table has room for. sgdisk makes it no longer.
	Entries    int
	Partitions []Partition
}

// NewGPT returns the empty table that sgdisk makes on a disk.
func NewGPT(sectors, sectorSize int64) *GPT {
	first := FirstUsable(sectorSize)
	return &GPT{First: first, Last: sectors - first, Align: mebibyte / sectorSize, Entries: entriesOfTable}
}

// FirstUsable is the first sector after the header and the entries of a table that sgdisk makes.
func FirstUsable(sectorSize int64) int64 { return 2 + entriesOfTable*entrySize/sectorSize }

// GPTOf returns the table of a disk, as sgdisk reads it.
func GPTOf(d *Disk) *GPT {
	t := NewGPT(d.Sectors(), d.SectorSize)
	if d.Table != TableGPT {
		return t
	}
	if d.First > 0 && d.Last > 0 {
		t.First, t.Last = d.First, d.Last
	}
	t.Entries = cmp.Or(d.Entries, t.Entries)
	t.Partitions = slices.Clone(d.Partitions)
	// sgdisk aligns new partitions as those are that exist.
	exponent := bits.Len64(uint64(t.Align)) - 1
	for _, p := range t.Partitions {
		t.Entries = max(t.Entries, p.Number) // lsblk does not say how long a table is
		for exponent > 0 && p.Start%(1<<exponent) != 0 {
			exponent--
		}
	}
	t.Align = 1 << exponent
	if t.Align < minAlign && d.Sectors() >= smallestAdvanced {
		t.Align = minAlign
	}
	return t
}

// Clone returns a table that changes by itself.
func (t *GPT) Clone() *GPT {
	clone := *t
	clone.Partitions = slices.Clone(t.Partitions)
	return &clone
}

// Get returns the partition with a number; nil: there is none.
func (t *GPT) Get(number int) *Partition {
	for i := range t.Partitions {
		if t.Partitions[i].Number == number {
			return &t.Partitions[i]
		}
	}
	return nil
}

// Delete removes the partition with a number.
func (t *GPT) Delete(number int) {
	t.Partitions = slices.DeleteFunc(t.Partitions, func(p Partition) bool { return p.Number == number })
}

// Create adds a partition as sgdisk --new=NUMBER:START:+SIZE does. The number 0 is the first
// free one, the start 0 the begin of the largest free block, and the size 0 ends at the end of
// that block. The result stays valid until the next change.
func (t *GPT) Create(number int, start, size int64) (*Partition, error) {
	if number == 0 {
		for number = 1; t.Get(number) != nil; number++ {
		}
	}
	if number < 1 || number > t.Entries {
		return nil, fmt.Errorf("the table has no room for a partition %d: it has %d entries", number, t.Entries)
	}
	if t.Get(number) != nil {
		return nil, fmt.Errorf("partition %d exists", number)
	}
	low := t.aligned(t.firstInLargest())
	high := t.lastInFree(low)
	if start == 0 {
		start = low
	}
	end := high
	if size != 0 {
		end = start + size - 1
	}
	start = t.aligned(start)
	switch {
	case !t.free(start, start):
		return nil, fmt.Errorf("there is no free space at sector %d", start)
	case start > end && size == 0:
		return nil, fmt.Errorf("sector %d is not in the largest free block, which ends at sector %d", start, end)
	case start > end:
		return nil, fmt.Errorf("the aligned start, sector %d, is behind the end, sector %d", start, end)
	case t.lastInFree(start) < end:
		return nil, fmt.Errorf("there is no free space from sector %d to sector %d: it ends at %d", start, end,
			t.lastInFree(start))
	}
	t.Partitions = append(t.Partitions, Partition{Number: number, Start: start, Size: end - start + 1})
	return &t.Partitions[len(t.Partitions)-1], nil
}

// aligned moves a sector to a multiple of the alignment: to the one before if the sectors between
// are free, else to the one after under the same condition.
func (t *GPT) aligned(sector int64) int64 {
	if sector%t.Align == 0 {
		return sector
	}
	earlier := sector / t.Align * t.Align
	later := earlier + t.Align
	switch {
	case earlier >= t.First && t.free(earlier, sector-1):
		return earlier
	case later <= t.Last && t.free(sector+1, later):
		return later
	}
	return sector
}

// free reports whether the sectors from one to another belong to no partition and are usable.
func (t *GPT) free(from, to int64) bool {
	if from < t.First || to > t.Last {
		return false
	}
	return !slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.Start <= to && from < p.Start+p.Size })
}

// firstInLargest returns the first sector of the largest free block; 0: nothing is free.
func (t *GPT) firstInLargest() int64 {
	largest, first := int64(0), int64(0)
	for from := t.First; ; {
		from = t.firstAvailable(from)
		if from > t.Last {
			return first
		}
		last := t.lastInFree(from)
		if last-from+1 > largest {
			largest, first = last-from+1, from
		}
		from = last + 1
	}
}

// firstAvailable returns the first sector from one on that is in no partition.
func (t *GPT) firstAvailable(from int64) int64 {
	for moved := true; moved; {
		moved = false
		for _, p := range t.Partitions {
			if p.Start <= from && from < p.Start+p.Size {
				from, moved = p.Start+p.Size, true
			}
		}
	}
	return from
}

// lastInFree returns the last sector before the next partition behind start.
func (t *GPT) lastInFree(start int64) int64 {
	last := t.Last
	for _, p := range t.Partitions {
		if p.Start > start && p.Start < last {
			last = p.Start - 1
		}
	}
	return last
}

// Free returns the free blocks of the table that have at least an aligned part, as pairs of
// their first and last sector.
func (t *GPT) Free() [][2]int64 {
	var blocks [][2]int64
	for from := t.firstAvailable(t.First); from <= t.Last; {
		last := t.lastInFree(from)
		if last-from+1 >= t.Align {
			blocks = append(blocks, [2]int64{from, last})
		}
		from = t.firstAvailable(last + 1)
	}
	return blocks
}
