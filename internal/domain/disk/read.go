package disk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a document.
const (
	MaxDocument = 16 << 20
	maxDisks    = 1_000
	maxSize     = 1 << 60 // bytes
	maxName     = 1_024
)

// Read reads the disks in a document: the output of lsblk --json, of sfdisk --json, the
// hardware of a BareMetalHost as Metal3 writes it, or the BareMetalHost itself. It is JSON.
func Read(document []byte) (*Facts, error) {
	if len(document) > MaxDocument {
		return nil, fmt.Errorf("the document about disks is larger than %s", Size(MaxDocument))
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, fmt.Errorf("the document about disks is no JSON object: %w", err)
	}
	read := func(facts *Facts, err error) (*Facts, error) {
		if err != nil {
			return nil, err
		}
		return facts, facts.check()
	}
	switch {
	case top["blockdevices"] != nil:
		return read(readLsblk(document))
	case top["partitiontable"] != nil:
		return read(readSfdisk(document))
	case bytes.HasPrefix(top["storage"], []byte("[")):
		return read(readHardware(document))
	case string(top["kind"]) == `"BareMetalHost"`:
		var host struct {
			Status struct{ Hardware json.RawMessage }
		}
		if err := decode(document, &host); err != nil {
			return nil, fmt.Errorf("the BareMetalHost cannot be read: %w", err)
		}
		if host.Status.Hardware == nil {
			return nil, errors.New("the BareMetalHost has no status.hardware: its disks are unknown")
		}
		return read(readHardware(host.Status.Hardware))
	}
	return nil, errors.New("the document about disks is of no known tool: want lsblk --bytes --json -O, " +
		"sfdisk --json, or a BareMetalHost with status.hardware")
}

// decode reads JSON. Its error names the field and not the types of this package.
func decode(document []byte, into any) error {
	err := json.Unmarshal(document, into)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return fmt.Errorf("the field %s has a value of the wrong type: %s", strings.ToLower(wrong.Field), wrong.Value)
	}
	return err
}

// Join returns the facts of several documents. A disk may be in two of them where one is that of
// sfdisk, which knows the partition table best and does not know what partitions contain.
func Join(all ...*Facts) (*Facts, error) {
	joined := &Facts{}
	var sources []string
	for _, f := range all {
		if !slices.Contains(sources, f.Source) {
			sources = append(sources, f.Source)
		}
		for _, d := range f.Disks {
			known := slices.IndexFunc(joined.Disks, func(other Disk) bool { return other.Path == d.Path })
			switch {
			case known >= 0 && f.Source == SourceSfdisk:
				joined.Disks[known].takeTable(&d)
			case known >= 0 && sources[0] == SourceSfdisk:
				d.takeTable(&joined.Disks[known])
				joined.Disks[known] = d
			default:
				joined.Disks = append(joined.Disks, d)
			}
		}
	}
	joined.Source = strings.Join(sources, ", ")
	return joined, joined.check()
}

// takeTable takes the partition table that sfdisk knows, with the contents that are known.
func (d *Disk) takeTable(table *Disk) {
	contents := map[int]Content{}
	for _, p := range d.Partitions {
		contents[p.Number] = p.Content
	}
	if d.Size < table.Size || d.Rounded {
		d.Size = table.Size
	}
	d.Rounded, d.SectorSize, d.Table = false, table.SectorSize, table.Table
	d.Entries = table.Entries
	d.First, d.Last, d.Partitions = table.First, table.Last, slices.Clone(table.Partitions)
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if content, known := contents[p.Number]; known {
			content.Bytes = p.Content.Bytes
			p.Content = content
		}
	}
}

// check refuses facts that cannot be, and too many.
func (f *Facts) check() error {
	if len(f.Disks) > maxDisks {
		return fmt.Errorf("the document has %d disks: at most %d are read", len(f.Disks), maxDisks)
	}
	seen := map[string]bool{}
	for i := range f.Disks {
		d := &f.Disks[i]
		if seen[d.Path] {
			return fmt.Errorf("the disk %s is listed twice", d.Path)
		}
		seen[d.Path] = true
		if err := d.check(); err != nil {
			return fmt.Errorf("the disk %s: %w", d.Path, err)
		}
	}
	return nil
}

func (d *Disk) check() error {
	switch {
	case !path.IsAbs(d.Path) || len(d.Path) > maxName || d.Path == "/":
		return errors.New("its path has to be that of a device, such as /dev/sda")
	case d.Entries < 0 || d.Entries > maxEntries:
		return fmt.Errorf("a partition table of %d entries cannot be planned: want at most %d", d.Entries, maxEntries)
	case d.Size < 0 || d.Size > maxSize:
		return fmt.Errorf("a size of %d bytes cannot be", d.Size)
	case d.SectorSize != 512 && d.SectorSize != 4096:
		return fmt.Errorf("a logical sector of %d bytes cannot be: want 512 or 4096", d.SectorSize)
	case d.Table == TableNone && len(d.Partitions) > 0:
		return errors.New("it has partitions, and no partition table")
	case len(d.Partitions) > entriesOfTable:
		return fmt.Errorf("it has %d partitions: at most %d can be planned", len(d.Partitions), entriesOfTable)
	}
	slices.SortStableFunc(d.Partitions, func(a, b Partition) int { return a.Number - b.Number })
	for i := range d.Partitions {
		p := &d.Partitions[i]
		switch {
		case p.Number < 1:
			return fmt.Errorf("the partition %s has no number", p.Path)
		case i > 0 && d.Partitions[i-1].Number == p.Number:
			return fmt.Errorf("partition %d is listed twice", p.Number)
		case p.Start < 0 || p.Size < 0 || p.Start > maxSize || p.Size > maxSize:
			return fmt.Errorf("partition %d has an impossible start or size", p.Number)
		case !d.Rounded && d.Size > 0 && p.Start+p.Size > d.Sectors():
			return fmt.Errorf("partition %d ends at sector %d, behind the end of the disk at %d", p.Number, p.Start+p.Size,
				d.Sectors())
		}
	}
	return d.checkOverlaps()
}

// checkOverlaps refuses partitions that share a sector. Those of an extended partition in a
// DOS table do.
func (d *Disk) checkOverlaps() error {
	if d.Table != TableGPT || d.Rounded {
		return nil
	}
	byStart := slices.Clone(d.Partitions)
	slices.SortFunc(byStart, func(a, b Partition) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(byStart); i++ {
		if before := byStart[i-1]; before.Start+before.Size > byStart[i].Start {
			return fmt.Errorf("the partitions %d and %d overlap", before.Number, byStart[i].Number)
		}
	}
	return nil
}

// NumberOf returns the number of a partition from the paths of the disk and of the partition, such
// as /dev/sda and /dev/sda1; 0: it is no partition of the disk.
func NumberOf(disk, partition string) int {
	rest, ok := strings.CutPrefix(partition, disk)
	switch {
	case !ok:
		return 0
	case strings.HasPrefix(disk, "/dev/disk/"):
		rest, ok = strings.CutPrefix(rest, "-part")
	case '0' <= lastByte(disk) && lastByte(disk) <= '9':
		rest, ok = strings.CutPrefix(rest, "p")
	}
	number, err := strconv.Atoi(rest)
	if !ok || err != nil || number < 1 || rest[0] == '+' {
		return 0
	}
	return number
}

// bytesOf reads a size: a number of bytes, or a rounded number with a unit, such as 931.5G.
func bytesOf(text string) (bytes int64, rounded bool, err error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, false, nil
	}
	number, unit := text, int64(1)
	if i := strings.IndexByte("BKMGTPE", lastByte(text)); i >= 0 {
		number, unit = text[:len(text)-1], int64(1)<<(10*i)
	}
	value, err := strconv.ParseFloat(strings.Replace(number, ",", ".", 1), 64)
	if err != nil || !(value >= 0 && value*float64(unit) <= maxSize) { // a NaN is neither
		return 0, false, fmt.Errorf("%q is no size", clip(text))
	}
	return int64(value * float64(unit)), true, nil
}

// ParseSize reads the size of a blank disk: a number of bytes, or one with a binary (GiB, G) or
// decimal (GB) unit.
func ParseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTPEi")
	prefixes, base := "KMGTPE", int64(1024)
	unit := strings.TrimPrefix(text, number)
	if len(unit) == 2 && unit[1] == 'B' {
		base = 1000
	}
	factor := int64(1)
	switch {
	case unit == "" || unit == "B":
	case len(unit) > 3 || strings.IndexByte(prefixes, unit[0]) < 0 || len(unit) == 3 && unit[1:] != "iB" ||
		len(unit) == 2 && unit[1] != 'B' && unit[1] != 'i':
		return 0, fmt.Errorf("%q is no size: want a number of bytes, or one such as 500GB or 64GiB", clip(text))
	default:
		for range strings.IndexByte(prefixes, unit[0]) + 1 {
			factor *= base
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if bytes := value * float64(factor); err != nil || !(bytes > 0 && bytes <= maxSize) {
		return 0, fmt.Errorf("%q is no size: want a number of bytes, or one such as 500GB or 64GiB", clip(text))
	}
	return int64(value*float64(factor)) / defaultSector * defaultSector, nil
}

func lastByte(s string) byte {
	if s == "" {
		return ' '
	}
	return s[len(s)-1]
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
