package disk

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	v1 "glowplug/api/v1"
)

// tableNone is how the hardware of a host calls a disk without a partition table.
const tableNone = "none"

// readHardware reads status.hardware of a BareMetalHost.
func readHardware(document []byte) (*Facts, error) {
	hardware := &v1.HardwareDetails{}
	if err := decode(document, hardware); err != nil {
		return nil, fmt.Errorf("the hardware of the host cannot be read: %w", err)
	}
	if len(hardware.Storage) == 0 {
		return nil, errors.New("the hardware of the host has no disks")
	}
	return OfHardware(hardware)
}

// OfHardware returns the disks in the hardware of a host. Metal3 does not know the partitions of a
// disk: without a partitionTable it is unknown what the disk contains.
func OfHardware(hardware *v1.HardwareDetails) (*Facts, error) {
	facts := &Facts{Source: SourceHardware}
	for i := range hardware.Storage {
		facts.Disks = append(facts.Disks, ofDisk(&hardware.Storage[i]))
	}
	return facts, facts.check()
}

func ofDisk(s *v1.HardwareDisk) Disk {
	d := Disk{
		Path: s.Name, Model: s.Model, Serial: s.SerialNumber, WWN: s.WWN, Size: s.SizeBytes, Rotational: s.Rotational,
		SectorSize: cmp.Or(s.SectorBytes, defaultSector), Table: cmp.Or(s.PartitionTable, TableUnknown),
		First: s.FirstSector, Last: s.LastSector, Entries: int(s.PartitionTableLength),
	}
	if d.Table == tableNone {
		d.Table = TableNone
	}
	for _, name := range s.AlternateNames {
		d.Aliases = append(d.Aliases, path.Clean(name))
	}
	for _, p := range s.Partitions {
		d.Partitions = append(d.Partitions, Partition{
			Number: int(p.Number), Path: d.PartitionPath(int(p.Number)), Start: p.StartSector, Size: p.SizeSectors,
			Label: p.Label, GUID: p.GUID, TypeGUID: p.TypeGUID, Content: contentOf(p.Content, p.SizeSectors*d.SectorSize),
		})
	}
	if d.Table != TableUnknown {
		d.Content = contentOf(s.Content, d.Size)
		d.Content.Known = s.Content != nil || d.hasRealTable()
	}
	return d
}

func contentOf(c *v1.HardwareContent, bytes int64) Content {
	if c == nil {
		return Content{Bytes: bytes}
	}
	return Content{Known: true, Type: c.Type, Version: c.Version, Label: c.Label, UUID: c.UUID, Bytes: bytes}
}

// Hardware returns the disks as the hardware of a host. Rounded sizes have no partitions: these
// could not be compared with a config.
func (f *Facts) Hardware() []v1.HardwareDisk {
	var disks []v1.HardwareDisk
	for i := range f.Disks {
		disks = append(disks, f.Disks[i].hardware())
	}
	return disks
}

func (d *Disk) hardware() v1.HardwareDisk {
	h := v1.HardwareDisk{
		Name: d.Path, AlternateNames: slices.Clone(d.Aliases), Model: d.Model, SerialNumber: d.Serial, WWN: d.WWN,
		SizeBytes: d.Size, Rotational: d.Rotational, SectorBytes: d.SectorSize, FirstSector: d.First, LastSector: d.Last,
		PartitionTableLength: int64(d.Entries),
	}
	if d.Table == TableUnknown || d.Rounded {
		return h
	}
	if h.PartitionTable = cmp.Or(d.Table, tableNone); d.Content.Type != "" || !d.hasRealTable() {
		h.Content = hardwareOf(d.Content)
	}
	for _, p := range d.Partitions {
		h.Partitions = append(h.Partitions, v1.HardwarePartition{
			Number: int64(p.Number), StartSector: p.Start, SizeSectors: p.Size, Label: p.Label, GUID: p.GUID,
			TypeGUID: p.TypeGUID, Content: hardwareOf(p.Content),
		})
	}
	return h
}

func hardwareOf(c Content) *v1.HardwareContent {
	if !c.Known {
		return nil
	}
	return &v1.HardwareContent{Type: c.Type, Version: c.Version, Label: c.Label, UUID: c.UUID}
}
