package disk

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// readSfdisk reads the output of sfdisk --json (util-linux 2.27 and later) of one disk. It does not
// say what partitions contain.
func readSfdisk(document []byte) (*Facts, error) {
	var dump struct {
		PartitionTable struct {
			Label, Device, Unit           string
			FirstLBA, LastLBA, SectorSize int64
			TableLength                   scalar `json:"table-length"` // where it is not 128
			Partitions                    []struct {
				Node        string
				Start, Size int64
				Type, UUID  string
				Name        string
			}
		}
	}
	if err := decode(document, &dump); err != nil {
		return nil, fmt.Errorf("the output of sfdisk cannot be read: %w", err)
	}
	table := &dump.PartitionTable
	switch {
	case table.Device == "":
		return nil, errors.New("the output of sfdisk names no device")
	case table.Unit != "sectors":
		return nil, fmt.Errorf("the output of sfdisk counts in %q: want sectors", clip(table.Unit))
	}
	d := Disk{
		Path: table.Device, SectorSize: cmp.Or(table.SectorSize, defaultSector), Table: cmp.Or(table.Label, TableUnknown),
		First: table.FirstLBA, Last: table.LastLBA,
	}
	entries, err := table.TableLength.integer()
	if err != nil {
		return nil, fmt.Errorf("the table-length in the output of sfdisk: %w", err)
	}
	d.Entries = int(entries)
	end := int64(0)
	for _, p := range table.Partitions {
		d.Partitions = append(d.Partitions, Partition{
			Number: NumberOf(d.Path, p.Node), Path: p.Node, Start: p.Start, Size: p.Size, Label: trimmed(p.Name), GUID: p.UUID,
			TypeGUID: p.Type, Content: Content{Bytes: p.Size * d.SectorSize},
		})
		end = max(end, p.Start+p.Size)
	}
	// The copy of a GPT is behind the last usable sector. A DOS table does not say the size of the disk.
	d.Size = end * d.SectorSize
	if table.LastLBA > 0 {
		inEntries := (cmp.Or(entries, entriesOfTable)*entrySize + d.SectorSize - 1) / d.SectorSize
		d.Size = (max(end-1, table.LastLBA) + 2 + inEntries) * d.SectorSize
	}
	d.Content = Content{Known: d.hasRealTable(), Bytes: d.Size}
	return &Facts{Source: SourceSfdisk, Disks: []Disk{d}}, nil
}

// trimmed is a label as libblkid reads it, and with it udev, lsblk and Ignition: without white space
// at its end.
func trimmed(label string) string { return strings.TrimRight(label, " \t\n\v\f\r") }
