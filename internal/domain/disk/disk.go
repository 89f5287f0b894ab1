// Package disk holds what is known of the disks of a machine: their partition tables and what
// the partitions contain. It reads the documents of lsblk, sfdisk and Metal3, and changes a
// partition table in memory as sgdisk does on the disk.
package disk

import (
	"fmt"
	"path"
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
	// Entries is the number of partitions that a GPT has room for; 0: 128, or it is unknown.
	Entries    int
	Partitions []Partition
	// Content is what the whole disk contains. It can be there beside a partition table: blkid and
	// sgdisk take the boot sector of an exFAT for a DOS table, and the superblock of btrfs lies where a
	// GPT does not reach.
	Content Content
}

// hasRealTable reports whether the disk has a partition table that divides it. A document that does
// not say what the whole disk contains means nothing then.
func (d *Disk) hasRealTable() bool {
	return d.Table != TableNone && d.Table != TableUnknown && len(d.Partitions) > 0
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

// Index finds disks by their names.
type Index struct {
	// names has the paths and aliases, and serials the models with their serial numbers, as in names
	// that udev gives. nil: several disks have it.
	names, serials map[string]*Disk
}

// NewIndex returns the index of some facts, which may not change.
func NewIndex(facts *Facts) *Index {
	x := &Index{map[string]*Disk{}, map[string]*Disk{}}
	for i := range facts.Disks {
		d := &facts.Disks[i]
		names := append([]string{d.Path}, d.Aliases...)
		if d.WWN != "" {
			names = append(names, byID+"wwn-"+d.WWN, byID+"nvme-"+d.WWN)
		}
		for _, name := range names {
			only(x.names, name, d)
		}
		switch {
		case d.Serial != "" && d.Model != "":
			only(x.serials, strings.ReplaceAll(d.Model+"_"+d.Serial, " ", "_"), d)
		case d.Serial != "" && strings.HasPrefix(d.Path, "/dev/vd"): // a virtio disk has no model
			only(x.serials, d.Serial, d)
		}
	}
	return x
}

// byID is the folder in which udev names a disk by its WWN, and by its model and serial number.
const byID = "/dev/disk/by-id/"

// maxFileName is the longest name of a file on Linux, in bytes.
const maxFileName = 255

func only(disks map[string]*Disk, name string, d *Disk) {
	if other, twice := disks[name]; twice && other != d {
		d = nil
	}
	disks[name] = d
}

// Find returns the disk with a path, an alias or a name below /dev/disk/by-id; nil: there is none,
// or several.
func (x *Index) Find(device string) *Disk {
	device = path.Clean(device)
	if d := x.names[device]; d != nil {
		return d
	}
	id, ok := strings.CutPrefix(device, byID)
	if _, id, _ = strings.Cut(id, "-"); !ok || len(id) > maxFileName { // the bus comes first
		return nil
	}
	if d := x.serials[id]; d != nil {
		return d
	}
	if d := x.serials[strings.TrimSuffix(id, "_1")]; d != nil && strings.HasPrefix(d.Path, "/dev/nvme") {
		return d // the number of its namespace comes last
	}
	return nil
}

// PartitionPath is the path of a partition of a disk: a p comes before the number where the
// name of the disk ends in a digit.
func (d *Disk) PartitionPath(number int) string {
	if last := lastByte(d.Path); '0' <= last && last <= '9' {
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
