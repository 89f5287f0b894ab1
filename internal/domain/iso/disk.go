package iso

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// An image is often also a disk, with partition tables around the volume. A tail moves
// its end: without the new end in the partition that holds the volume and in the tables
// themselves a copy on a stick would not boot.

// volumeStart is the last block at which a partition of the volume starts.
const volumeStart = 64

// extendDisk makes the partition tables as long as the image with its tail.
func (c *customizer) extendDisk() error {
	if len(c.patch.tail) == 0 {
		return nil
	}
	table, err := readGPT(c.img.src)
	if err != nil {
		return err
	}
	if table != nil {
		// Room for the backup at the very end: the entries, and one block.
		room := align(int64(len(table.entries)) + block)
		backup := c.patch.add(make([]byte, room)) + room - block
		if err := c.extendGPT(table, backup/block); err != nil {
			return err
		}
	}
	return c.extendMBR()
}

// holdsVolume returns the index of the partition that holds the volume and is the last
// one, so that it can grow; -1 if there is none. Partitions of no length are unused.
func (c *customizer) holdsVolume(parts []partition) int {
	found := -1
	for i, p := range parts {
		if p.blocks.Len > 0 && p.blocks.Off <= volumeStart && p.blocks.end() >= c.img.volume.end/block {
			found = i
		}
	}
	for i, p := range parts {
		if found >= 0 && i != found && p.blocks.Len > 0 && p.blocks.end() > parts[found].blocks.end() {
			return -1
		}
	}
	return found
}

func (c *customizer) extendMBR() error {
	parts, err := readMBR(c.img.src)
	if err != nil {
		return err
	}
	for i := range parts {
		if p := &parts[i]; p.kind == mbrGPT && p.blocks.Off == 1 {
			if err := c.resizeMBR(i, p.blocks.Off); err != nil {
				return err
			}
			p.blocks.Len = 0
		}
	}
	if i := c.holdsVolume(parts); i >= 0 {
		return c.resizeMBR(i, parts[i].blocks.Off)
	}
	return nil
}

// resizeMBR makes a partition end where the patched image does.
func (c *customizer) resizeMBR(i int, start int64) error {
	return c.patch.put32(446+16*int64(i)+12, uint32(min(c.patch.size()/block-start, math.MaxUint32)))
}

// extendGPT writes both copies of the table, the backup's header at the block
// backup, which is the last.
func (c *customizer) extendGPT(t *gpt, backup int64) error {
	le := binary.LittleEndian
	size := int(le.Uint32(t.header[12:]))
	if size < 92 || size > block {
		return nil // firmware accepts no such table
	}
	entriesBackup := backup - int64(len(t.entries))/block
	if i := c.holdsVolume(t.parts); i >= 0 {
		le.PutUint64(t.entries[i*t.entrySize+40:], uint64(entriesBackup-1))
	}
	le.PutUint32(t.header[88:], crc32.ChecksumIEEE(t.entries))
	le.PutUint64(t.header[48:], uint64(entriesBackup-1)) // the last usable block
	seal := func(self, other, entries int64) {
		le.PutUint64(t.header[24:], uint64(self))
		le.PutUint64(t.header[32:], uint64(other))
		le.PutUint64(t.header[72:], uint64(entries))
		le.PutUint32(t.header[16:], 0)
		le.PutUint32(t.header[16:], crc32.ChecksumIEEE(t.header[:size]))
	}
	seal(1, backup, t.entriesAt/block)
	if err := c.patch.write(t.header, block); err != nil {
		return err
	}
	if err := c.patch.write(t.entries, t.entriesAt); err != nil {
		return err
	}
	seal(backup, 1, entriesBackup)
	start := c.patch.tailStart()
	copy(c.patch.tail[entriesBackup*block-start:], t.entries)
	copy(c.patch.tail[backup*block-start:], t.header)
	return nil
}
