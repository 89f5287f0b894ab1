package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/disk"
)

// commit changes the table as sgdisk does: all deletions before the first creation.
func (d *device) commit(parts []*partitionStep, before []*volume, whole disk.Content) {
	table := d.table.Clone()
	for _, part := range parts {
		if part.deletes {
			table.Delete(part.spec.Number)
		}
	}
	made := make([]*disk.Partition, len(parts))
	for i, part := range parts {
		if !part.creates {
			continue
		}
		created, err := table.Create(part.spec.Number, value(part.start), value(part.size))
		if err != nil {
			d.cannot(parts, i, err)
			return
		}
		created.Path = d.facts.PartitionPath(created.Number)
		created.Label, created.GUID = value(part.spec.Label), value(part.spec.GUID)
		created.TypeGUID = cmp.Or(value(part.spec.TypeGUID), linuxData)
		copied := *created
		made[i] = &copied
	}
	d.table = table
	d.settle(before, whole)
	for i, part := range parts {
		part.describe(d, made[i], before)
	}
	created := slices.IndexFunc(made, func(m *disk.Partition) bool { return m != nil })
	if created >= 0 && d.whole.content.Type != "" {
		s := parts[created].step
		s.Action = Wipe
		s.Loses = append(s.Loses, d.whole.content.String()+" on the whole disk")
		if s.Rule = "the new partition table overwrites what is on the whole disk"; d.facts.Table == disk.TableGPT {
			s.Rule = "blkid finds " + article(d.whole.content) + " on the whole disk, beside the partition table: the new " +
				"partition takes a part of it"
		}
		d.whole.content = disk.Content{} // a part of it can be left that blkid recognises
	}
}

// linuxData is the type of partitions that sgdisk makes where the config has none.
const linuxData = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

// settle makes the volumes of the table: a partition that starts where one was before contains
// what that contained.
func (d *device) settle(before []*volume, whole disk.Content) {
	unknown := d.facts.Table == disk.TableUnknown || !whole.Known && len(before) == 0
	d.volumes = nil
	for i := range d.table.Partitions {
		part := &d.table.Partitions[i]
		v := d.volumeOf(part, disk.Content{Known: !unknown})
		if at := startingAt(before, part.Start); at != nil {
			v.content, v.inherits = at.content, true
		} else if former := inside(before, whole, part.Start*d.facts.SectorSize, d); former != "" {
			v.content.Known = false
			v.unclear = "the partition begins inside " + former + ", and blkid can find a copy of its superblock there: " +
				"set wipeFilesystem"
		}
		d.volumes = append(d.volumes, v)
	}
}

// groupOfExt is the distance of the copies of the superblock of ext4 with blocks of 1 KiB, which
// mkfs.ext4 uses on small devices. Only these copies lie where a partition can begin; those of
// larger blocks are found at no begin.
const groupOfExt = 8 << 20

// inside names the file system of before that a place lies in, in bytes of the disk, where a copy
// of its superblock can lie there; "": none. xfs has copies at places that only its superblock says.
func inside(before []*volume, whole disk.Content, at int64, d *device) string {
	former := slices.Clone(before)
	if whole.Type != "" {
		former = append(former, &volume{device: d, part: &disk.Partition{}, bytes: d.out.Size, content: whole})
	}
	for _, v := range former {
		offset := at - v.part.Start*d.facts.SectorSize
		isCopy := v.content.Type == "xfs" || strings.HasPrefix(v.content.Type, "ext") && offset%groupOfExt == 0
		if offset > 0 && offset < v.bytes && isCopy {
			return article(v.content)
		}
	}
	return ""
}

func startingAt(volumes []*volume, start int64) *volume {
	return firstOf(volumes, func(v *volume) bool { return v.part.Start == start })
}

// describe says of a step how its partition is, and what is lost.
func (part *partitionStep) describe(d *device, made *disk.Partition, before []*volume) {
	s := part.step
	number := part.spec.Number
	if made != nil && number == 0 {
		number = made.Number
		s.Name = fmt.Sprintf("%d %s", number, s.Name)
	}
	v := d.volume(number)
	if v != nil {
		v.step = s
		s.Detail = fmt.Sprintf("%s at %s", disk.Size(v.bytes), disk.Size(v.part.Start*d.facts.SectorSize))
		if d.facts.Rounded {
			s.Detail = "about " + s.Detail
		}
	}
	if !part.deletes {
		return
	}
	old := firstOf(before, func(v *volume) bool { return v.number == part.spec.Number })
	if s.Loses = lostVolumes(d, before, old); len(s.Loses) == 0 && v != nil {
		s.Notes = append(s.Notes, "the partition stays where it is: what it contains is not lost")
	}
}

// lostVolumes are the partitions of before that no partition of the table covers from the same
// start, or only one of them.
func lostVolumes(d *device, before []*volume, only *volume) []string {
	var lost []string
	for _, old := range before {
		if only != nil && old != only {
			continue
		}
		name := fmt.Sprintf("partition %s, %s, %s", old, disk.Size(old.bytes), old.content)
		switch now := startingAt(d.volumes, old.part.Start); {
		case now == nil:
			lost = append(lost, name)
		case now.bytes < old.bytes && !old.content.Empty():
			lost = append(lost, fmt.Sprintf("%s: only the first %s are left", name, disk.Size(now.bytes)))
		}
	}
	return lost
}
