package plan

import (
	"cmp"
	"fmt"
	"strings"

	"glowplug/internal/domain/disk"
)

// decide plans each partition by the table of the operator notes, and reports whether sgdisk is
// run: one failure keeps Ignition from running it for the disk.
func (d *device) decide(parts []*partitionStep) (commit bool) {
	if !d.resolve(parts) {
		return false
	}
	failed := false
	for _, part := range parts {
		part.decide(d)
		failed = failed || part.step.Action == Fail
	}
	if !failed {
		return true
	}
	first := true
	for _, part := range parts {
		isFirst := part.step.Action == Fail && first
		part.step.NotReached = !isFirst
		first = first && !isFirst
		part.deletes, part.creates = false, false
	}
	return false
}

// resolve replaces a start or size of 0 by what sgdisk would choose if all partitions of the
// config were made anew (getRealStartAndSize). It reports false where sgdisk cannot.
func (d *device) resolve(parts []*partitionStep) bool {
	table := d.table.Clone()
	for _, part := range parts {
		if exists := d.table.Get(part.spec.Number); exists != nil && part.spec.Number != 0 {
			table.Delete(part.spec.Number)
		}
	}
	for i, part := range parts {
		if !part.shouldExist() {
			continue
		}
		start, size := part.start, part.size
		if exists := part.existing(d); exists != nil && !value(part.spec.WipePartitionEntry) {
			start, size = cmp.Or(start, &exists.Start), cmp.Or(size, &exists.Size)
		}
		made, err := table.Create(part.spec.Number, value(start), value(size))
		if err != nil {
			d.cannot(parts, i, err)
			return false
		}
		if part.spec.Number != 0 && (isZero(part.start) || isZero(part.size)) {
			created := *made
			part.start, part.size = replace(part.start, &created.Start), replace(part.size, &created.Size)
		}
	}
	return true
}

func isZero(n *int64) bool { return n != nil && *n == 0 }

// replace returns another number in place of one that the config has.
func replace(n, by *int64) *int64 {
	if n == nil {
		return nil
	}
	return by
}

// cannot says that sgdisk cannot make a partition, so that the whole disk is not partitioned.
func (d *device) cannot(parts []*partitionStep, failing int, err error) {
	for i, part := range parts {
		part.deletes, part.creates = false, false
		if i == failing {
			part.step.Action, part.step.Rule = Fail, "sgdisk cannot make the partition: "+err.Error()
			part.step.Detail = wanted(part.spec)
			if d.facts.Rounded {
				part.step.Action = Unknown
				part.step.Rule += ", by sizes that are rounded: run lsblk with --bytes"
			}
			continue
		}
		if part.step.Action == "" {
			part.start, part.size = notZero(part.start), notZero(part.size)
			part.decide(d)
			part.deletes, part.creates = false, false
		}
		part.step.NotReached = true
	}
}

func notZero(n *int64) *int64 {
	if isZero(n) {
		return nil
	}
	return n
}

func (part *partitionStep) existing(d *device) *disk.Partition {
	if part.spec.Number == 0 {
		return nil
	}
	return d.table.Get(part.spec.Number)
}

func (part *partitionStep) shouldExist() bool {
	return part.spec.ShouldExist == nil || *part.spec.ShouldExist
}

// decide is the table of the operator notes: partition present, shouldExist, wipePartitionEntry.
func (part *partitionStep) decide(d *device) {
	exists, should, wipe := part.existing(d), part.shouldExist(), value(part.spec.WipePartitionEntry)
	s := part.step
	field := s.Field
	if exists == nil {
		if !should {
			s.Action, s.Rule = Keep, "there is no such partition, and shouldExist is false"
			return
		}
		s.Action, part.creates = Create, true
		return
	}
	if !should {
		s.Field = field + ".wipePartitionEntry"
		if !wipe {
			s.Action = Fail
			s.Rule = "the partition exists, shouldExist is false, and wipePartitionEntry does not allow to delete it"
			return
		}
		s.Action, part.deletes = Delete, true
		s.Rule = "the partition exists, shouldExist is false, and wipePartitionEntry is true"
		return
	}
	differs, at := part.differs(exists)
	differsInSizeOnly := differs == "" && part.size != nil && *part.size != exists.Size
	if differsInSizeOnly {
		sector := d.facts.SectorSize
		differs, at = fmt.Sprintf("it has %s (%d sectors), and the config says %s (%d sectors)", disk.Size(exists.Size*sector),
			exists.Size, disk.Size(*part.size*sector), *part.size), "sizeMiB"
	}
	switch {
	case differs == "" && d.facts.Rounded && (part.start != nil || part.size != nil):
		s.Action, s.Rule = Unknown, "the sizes in the disk facts are rounded: run lsblk with --bytes"
	case differs == "":
		s.Action, s.Rule = Reuse, "the partition matches"
	case wipe:
		s.Action, part.deletes, part.creates = Wipe, true, true
		s.Rule = "the partition does not match (" + differs + "), and wipePartitionEntry is true"
		s.Field = field + ".wipePartitionEntry"
	case value(part.spec.Resize) && differsInSizeOnly:
		s.Action, part.deletes, part.creates = Resize, true, true
		s.Rule = "the partition matches in all but its size, and resize is true"
		s.Field = field + ".resize"
		part.spec.GUID, part.spec.TypeGUID, part.spec.Label = &exists.GUID, &exists.TypeGUID, &exists.Label
		part.start = &exists.Start
	default:
		s.Action, s.Field = Fail, field+"."+at
		s.Rule = "the partition does not match (" + differs + "), and wipePartitionEntry does not allow to replace it"
	}
}

// differs says in what an existing partition does not match the config, apart from its size, and
// the field; "": it matches (partitionMatchesCommon).
func (part *partitionStep) differs(exists *disk.Partition) (differs, field string) {
	spec := part.spec
	switch {
	case part.start != nil && *part.start != exists.Start:
		return fmt.Sprintf("it starts at sector %d, and the config says %d", exists.Start, *part.start), "startMiB"
	case value(spec.GUID) != "" && !strings.EqualFold(*spec.GUID, exists.GUID):
		return fmt.Sprintf("its GUID is %s", exists.GUID), "guid"
	case value(spec.TypeGUID) != "" && !strings.EqualFold(*spec.TypeGUID, exists.TypeGUID):
		return fmt.Sprintf("its type GUID is %s", exists.TypeGUID), "typeGuid"
	case spec.Label != nil && *spec.Label != exists.Label:
		return fmt.Sprintf("its label is %q", exists.Label), "label"
	}
	return "", ""
}
