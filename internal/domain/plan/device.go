package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"glowplug/internal/domain/disk"
)

// device is a disk, an array or an encrypted volume in the state after the last step.
type device struct {
	out   Device
	steps []*step
	// facts are those of a disk; nil for other devices and for a disk that is unknown.
	facts *disk.Disk
	// table is the GPT of a disk, empty where the disk has none; nil where there is another
	// table or it is unknown.
	table *disk.GPT
	// whole is the device as a whole, volumes are its partitions.
	whole   volume
	volumes []*volume
}

// volume is something that a file system can be made on: a partition, an array, an encrypted
// volume, or a whole disk.
type volume struct {
	device *device
	// part is the entry of a partition; nil for a device as a whole.
	part *disk.Partition
	// number is that of a partition; 0 for a device as a whole.
	number int
	bytes  int64
	// content is what it contains now. Where it is not known, unclear can say why.
	content disk.Content
	unclear string
	// inherits is true for a partition that begins where one was before, so that it contains what
	// that contained.
	inherits bool
	// wanted is the number of file systems that the config makes on it, and usedBy the array or the
	// encrypted volume of the config that it is a part of; empty: of none.
	wanted int
	usedBy string
	// step is the step that makes or finds the volume; nil: there is none.
	step *step
}

// newDevice returns the device of a disk that is known.
func newDevice(facts *disk.Disk) *device {
	d := &device{facts: facts, out: Device{Device: facts.Path, Size: facts.Size}}
	name := []string{facts.Model, facts.Serial}
	d.out.Name = strings.Join(slices.DeleteFunc(name, func(s string) bool { return s == "" }), " ")
	d.whole = volume{device: d, bytes: facts.Size, content: facts.Content}
	for i := range facts.Partitions {
		part := &facts.Partitions[i]
		d.volumes = append(d.volumes, d.volumeOf(part, part.Content))
	}
	if facts.Table == disk.TableGPT || facts.Table == disk.TableNone {
		d.table = disk.GPTOf(facts)
	}
	d.out.Before = d.parts()
	return d
}

// named takes over the name that the config has for a disk.
func (d *device) named(name string) {
	if d.facts != nil && len(d.steps) == 0 && name != d.facts.Path {
		d.out.Device, d.out.Path = name, d.facts.Path
	}
}

func (d *device) volumeOf(part *disk.Partition, content disk.Content) *volume {
	return &volume{
		device: d, part: part, number: part.Number, bytes: part.Size * d.facts.SectorSize, content: content,
	}
}

// volume returns the partition with a number, or the whole device for 0; nil: there is none.
func (d *device) volume(number int) *volume {
	if number == 0 {
		return &d.whole
	}
	return firstOf(d.volumes, func(v *volume) bool { return v.number == number })
}

// firstOf returns the first volume for which ok is true; nil: there is none.
func firstOf(volumes []*volume, ok func(*volume) bool) *volume {
	if i := slices.IndexFunc(volumes, ok); i >= 0 {
		return volumes[i]
	}
	return nil
}

// paths are the names of a volume below /dev, without those of its content.
func (v *volume) paths() []string {
	d := v.device
	if v.part == nil {
		return append([]string{d.out.Device, d.out.Path}, d.aliases()...)
	}
	names := []string{v.part.Path, d.facts.PartitionPath(v.number)}
	for _, whole := range append(d.aliases(), d.out.Device) {
		if strings.HasPrefix(whole, "/dev/disk/") {
			names = append(names, fmt.Sprintf("%s-part%d", whole, v.number))
		}
	}
	if v.part.Label != "" {
		names = append(names, "/dev/disk/by-partlabel/"+encoded(strings.TrimRight(v.part.Label, " ")))
	}
	if v.part.GUID != "" {
		names = append(names, "/dev/disk/by-partuuid/"+strings.ToLower(v.part.GUID))
	}
	return names
}

// encoded is a label as udev writes it into the name of a link (encode_devnode_name of systemd).
func encoded(label string) string {
	var b strings.Builder
	for _, c := range label {
		if c > unicode.MaxASCII || strings.ContainsRune("#+-.:=@_", c) ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\x%02x", c)
		}
	}
	return b.String()
}

// aliases are the other names of a disk or an array.
func (d *device) aliases() []string {
	if d.facts != nil {
		return d.facts.Aliases
	}
	if name, ok := strings.CutPrefix(d.out.Device, "/dev/md/"); ok {
		return []string{"/dev/disk/by-id/md-name-any:" + name}
	}
	if name, ok := strings.CutPrefix(d.out.Device, "/dev/mapper/"); ok {
		return []string{"/dev/disk/by-id/dm-name-" + name}
	}
	return nil
}

// parts are the partitions of a disk and the free parts between, in order; nil where they are
// unknown.
func (d *device) parts() []Part {
	if d.facts == nil || d.facts.Table == disk.TableUnknown && len(d.volumes) == 0 && d.table == nil {
		return nil
	}
	sector := d.facts.SectorSize
	if len(d.volumes) == 0 && d.whole.content.Type != "" {
		return []Part{{Size: d.out.Size, Content: d.whole.content.String()}}
	}
	var parts []Part
	for _, v := range d.volumes {
		parts = append(parts, Part{
			Number: v.number, Label: v.part.Label, Start: v.part.Start * sector, Size: v.bytes, Content: v.content.String(),
		})
	}
	if d.table != nil {
		for _, free := range d.table.Free() {
			parts = append(parts, Part{Start: free[0] * sector, Size: (free[1] - free[0] + 1) * sector})
		}
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(a.Start, b.Start) })
	return parts
}

// finish returns the device with its steps, as it is after the last. What Ignition leaves when it
// fails is not told.
func (d *device) finish(failed bool) Device {
	if !failed {
		d.out.After = d.parts()
	}
	d.out.Steps = finish(d.steps)
	return d.out
}

// String is how steps call a volume.
func (v *volume) String() string {
	if v.part == nil {
		return path.Base(v.device.out.Device)
	}
	if v.part.Label != "" {
		return fmt.Sprintf("%d %q", v.number, v.part.Label)
	}
	return fmt.Sprint(v.number)
}
