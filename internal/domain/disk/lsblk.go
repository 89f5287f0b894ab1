package disk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// blockDevice is a device as lsblk (util-linux 2.34 to 2.41) lists it. Sizes are in bytes with
// --bytes, else rounded with a unit. Start is in sectors of 512 bytes, as in sysfs.
type blockDevice struct {
	Name, Path, Type          string
	Size                      scalar
	Start                     scalar
	LogSec                    scalar `json:"log-sec"`
	PartN                     scalar
	Model, Serial, WWN        string
	IDLink                    string `json:"id-link"`
	PTType                    string
	Rota                      truth
	PartLabel, PartUUID       string
	PartType                  string
	FSType, FSVer             string
	UUID, Label               string
	Children                  []blockDevice
	hasFSType, hasPartitionID bool
}

// scalar is a number that is written with or without quotes, or null.
type scalar string

func (s *scalar) UnmarshalJSON(raw []byte) error {
	switch text := string(raw); {
	case text == "null":
	case strings.HasPrefix(text, `"`):
		var unquoted string
		if err := json.Unmarshal(raw, &unquoted); err != nil {
			return err
		}
		*s = scalar(unquoted)
	default:
		*s = scalar(text)
	}
	return nil
}

// truth is true, "1" or 1; older releases of lsblk write numbers in quotes.
type truth bool

func (b *truth) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	*b = text == "true" || text == "1"
	return nil
}

// integer reads a whole number; absent: 0.
func (s scalar) integer() (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, rounded, err := bytesOf(string(s))
	if rounded {
		return 0, fmt.Errorf("%q is no whole number", clip(string(s)))
	}
	return n, err
}

// holdsDisk are the types of devices that are disks of a machine.
var holdsDisk = map[string]bool{"disk": true, "loop": true, "mpath": true, "": true}

func readLsblk(document []byte) (*Facts, error) {
	var list struct{ BlockDevices []blockDevice }
	if err := decode(document, &list); err != nil {
		return nil, fmt.Errorf("the output of lsblk cannot be read: %w", err)
	}
	var columns struct{ BlockDevices []map[string]json.RawMessage }
	_ = json.Unmarshal(document, &columns) // it has just been read
	for i := range list.BlockDevices {
		_, list.BlockDevices[i].hasFSType = columns.BlockDevices[i]["fstype"]
		_, list.BlockDevices[i].hasPartitionID = columns.BlockDevices[i]["pttype"]
	}
	facts := &Facts{Source: SourceLsblk}
	list.BlockDevices = nest(list.BlockDevices)
	for _, dev := range list.BlockDevices {
		if !holdsDisk[dev.Type] {
			continue
		}
		d, err := dev.disk()
		if err != nil {
			return nil, fmt.Errorf("the device %s in the output of lsblk: %w", clip(dev.Name), err)
		}
		if d.Size != 0 { // else there is no medium in the drive
			facts.Disks = append(facts.Disks, d)
		}
	}
	return facts, nil
}

// nest puts partitions below their disks. lsblk lists them beside each other where its column NAME
// is not asked for.
func nest(devices []blockDevice) []blockDevice {
	var disks []blockDevice
	for _, dev := range devices {
		if last := len(disks) - 1; dev.Type == "part" && last >= 0 && NumberOf(disks[last].path(), dev.path()) > 0 {
			disks[last].Children = append(disks[last].Children, dev)
		} else {
			disks = append(disks, dev)
		}
	}
	return disks
}

// disk returns the disk that a device is.
func (dev *blockDevice) disk() (d Disk, err error) {
	d = Disk{
		Path: dev.path(), Model: strings.TrimSpace(dev.Model), Serial: strings.TrimSpace(dev.Serial), WWN: dev.WWN,
		Table: dev.PTType, Rotational: bool(dev.Rota),
	}
	if dev.IDLink != "" {
		d.Aliases = append(d.Aliases, "/dev/disk/by-id/"+dev.IDLink)
	}
	if d.Size, d.Rounded, err = bytesOf(cmp.Or(string(dev.Size), "0")); err != nil {
		return d, err
	}
	if d.SectorSize, err = dev.LogSec.integer(); err != nil {
		return d, err
	}
	d.SectorSize = cmp.Or(d.SectorSize, defaultSector)
	// lsblk asks udev. Where udev does not run, partitions have no IDs, and nothing is known of
	// the contents.
	isKnown := dev.hasFSType && dev.hasPartitionID
	for _, child := range dev.Children {
		if child.Type != "part" {
			continue
		}
		isKnown = isKnown && child.PartUUID != ""
		p, rounded, err := child.partition(&d)
		if err != nil {
			return d, fmt.Errorf("its partition %s: %w", clip(child.Name), err)
		}
		d.Rounded = d.Rounded || rounded
		d.Partitions = append(d.Partitions, p)
	}
	for i := range d.Partitions {
		d.Partitions[i].Content.Known = isKnown
	}
	d.Content = dev.content(d.Size)
	d.Content.Known = isKnown
	if !isKnown {
		d.Table = TableUnknown
	}
	return d, nil
}

// content is what a device of a size contains. Whether that is known is the caller's to say.
func (dev *blockDevice) content(bytes int64) Content {
	return Content{Type: dev.FSType, Version: dev.FSVer, UUID: dev.UUID, Label: dev.Label, Bytes: bytes}
}

func (dev *blockDevice) path() string { return cmp.Or(dev.Path, "/dev/"+dev.Name) }

// partition returns the partition of a disk that a device is.
func (dev *blockDevice) partition(d *Disk) (p Partition, rounded bool, err error) {
	p = Partition{Path: dev.path(), Label: dev.PartLabel, GUID: dev.PartUUID, TypeGUID: dev.PartType}
	number, err := dev.PartN.integer()
	if err != nil {
		return p, false, err
	}
	p.Number = cmp.Or(int(number), NumberOf(d.Path, p.Path))
	bytes, rounded, err := bytesOf(cmp.Or(string(dev.Size), "0"))
	if err != nil {
		return p, false, err
	}
	start, err := dev.Start.integer()
	if err != nil {
		return p, false, err
	}
	if bytes < 0 || start < 0 {
		return p, false, errors.New("it has an impossible start or size")
	}
	// Older releases of lsblk do not know the start.
	rounded = rounded || dev.Start == ""
	p.Start, p.Size = start*512/d.SectorSize, bytes/d.SectorSize
	p.Content = dev.content(bytes)
	return p, rounded, nil
}
