// Package disk holds what is known of the disks of a machine: their partition tables and what
// the partitions contain. It reads the documents of lsblk, sfdisk and Metal3, and changes a
// partition table in memory as sgdisk does on the disk.
package disk

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Kinds of documents that facts are read from.
const (
	SourceLsblk    = "lsblk"
	SourceSfdisk   = "sfdisk"
	SourceHardware = "hardware"
	SourceBlank    = "blank"
)

// Kinds of partition tables, as blkid names them. TableUnknown: the facts do not say whether
// there is one.
const (
	TableGPT     = "gpt"
	TableNone    = ""
	TableUnknown = "unknown"
)

// Facts are the disks of a machine.
type Facts struct {
	// Source is the kind of document that they were read from; several are joined by a comma.
	Source string
	Disks  []Disk
}

// Disk is a disk and what is on it.
type Disk struct {
	// Path is the device, such as /dev/sda. Aliases are its other paths, where they are known.
	Path    string
	Aliases []string
	// Model, Serial and WWN identify it; empty where they are unknown.
	Model, Serial, WWN string
	// Size is in bytes, and SectorSize that of a logical sector, 512 or 4096.
	Size, SectorSize int64
	Rotational       bool
	// Rounded is true where the document has rounded sizes: they are not exact.
	Rounded bool
	// Table is the kind of the partition table.
	Table string
	// First and Last are the usable sectors of a GPT.
	First, Last int64
	Partitions  []Partition
	// Content is what the whole disk contains, where it has no partition table.
	Content Content
}

// Partition is an entry of a partition table. Start and Size are in logical sectors.
type Partition struct {
	Number         int
	Path           string
	Start, Size    int64
	Label          string
	GUID, TypeGUID string
	Content        Content
}

// Content is what a partition or a disk contains.
type Content struct {
	// Known is false where the facts do not say what it contains.
	Known bool
	// Type is that of blkid, such as ext4, swap, crypto_LUKS or linux_raid_member; empty:
	// blkid finds nothing.
	Type string
	// Version is that of the format, such as 2 for LUKS; empty where it is unknown.
	Version string
	// UUID and Label are those of the file system or the volume.
	UUID, Label string
	// Bytes is the size of the device that it was made on.
	Bytes int64
}

// Empty reports whether blkid finds nothing.
func (c Content) Empty() bool { return c.Known && c.Type == "" }

// String is the content in words, such as: ext4 "data".
func (c Content) String() string {
	switch {
	case !c.Known:
		return "unknown content"
	case c.Type == "":
		return "no file system"
	case c.Label != "":
		return fmt.Sprintf("%s %q", c.Type, c.Label)
	}
	return c.Type
}

// Find returns the disk with a path or an alias; nil: there is none.
func (f *Facts) Find(device string) *Disk {
	device = path.Clean(device)
	for i := range f.Disks {
		d := &f.Disks[i]
		if d.Path == device || slices.Contains(d.Aliases, device) || d.hasID(device) {
			return d
		}
	}
	return nil
}

// hasID reports whether udev gives the disk a name below /dev/disk/by-id: it ends in the WWN or,
// for a disk that is no partition, in the serial number.
func (d *Disk) hasID(device string) bool {
	id, ok := strings.CutPrefix(device, "/dev/disk/by-id/")
	if !ok {
		return false
	}
	if d.WWN != "" && (id == "wwn-"+d.WWN || id == "nvme-"+d.WWN) {
		return true
	}
	return d.Serial != "" && strings.HasSuffix(id, "_"+d.Serial)
}

// PartitionPath is the path of a partition of a disk: a p comes before the number where the
// name of the disk ends in a digit.
func (d *Disk) PartitionPath(number int) string {
	if last := d.Path[len(d.Path)-1]; '0' <= last && last <= '9' {
		return d.Path + "p" + strconv.Itoa(number)
	}
	return d.Path + strconv.Itoa(number)
}

// Sectors is the size of the disk in logical sectors.
func (d *Disk) Sectors() int64 { return d.Size / d.SectorSize }

// Blank returns a disk that contains nothing.
func Blank(device string, bytes int64) Disk {
	return Disk{Path: device, Size: bytes, SectorSize: defaultSector, Table: TableNone, Content: Content{Known: true}}
}

// Size is a number of bytes in binary units, such as "64 GiB" or "1.5 TiB".
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}
