package disk

import (
	"errors"
	"fmt"
	"path"
)

// readHardware reads status.hardware of a BareMetalHost in the shape of Metal3 (HardwareDetails of
// its API v1alpha1). Metal3 does not know the partitions of a disk.
func readHardware(document []byte) (*Facts, error) {
	var hardware struct {
		Storage []struct {
			Name, Model, SerialNumber, WWN string
			AlternateNames                 []string
			SizeBytes                      int64
		}
	}
	if err := decode(document, &hardware); err != nil {
		return nil, fmt.Errorf("the hardware of the host cannot be read: %w", err)
	}
	if len(hardware.Storage) == 0 {
		return nil, errors.New("the hardware of the host has no disks")
	}
	facts := &Facts{Source: SourceHardware}
	for _, s := range hardware.Storage {
		d := Disk{
			Path: s.Name, Model: s.Model, Serial: s.SerialNumber, WWN: s.WWN, Size: s.SizeBytes, SectorSize: defaultSector,
			Table: TableUnknown,
		}
		for _, name := range s.AlternateNames {
			d.Aliases = append(d.Aliases, path.Clean(name))
		}
		facts.Disks = append(facts.Disks, d)
	}
	return facts, nil
}
