package plan

import (
	"fmt"
	"path"
	"slices"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// partitionStep is what is done about a partition of the config.
type partitionStep struct {
	spec ignition.Partition
	step *step
	// start and size are in sectors; nil: any. Ignition replaces 0 by the value that sgdisk would
	// choose.
	start, size *int64
	// deletes and creates say what sgdisk is told to do.
	deletes, creates bool
}

// partition plans the partition table of the disk with an index, as partitionDisk of Ignition's
// internal/exec/stages/disks/partitions.go makes it.
func (p *planner) partition(i int) {
	config := p.config.Storage.Disks[i]
	field := fmt.Sprintf("storage.disks.%d", i)
	if v := p.partitionNamed(config.Device); v != nil {
		p.partitionOfPartition(config, field, v)
		return
	}
	d := p.device(config.Device)
	wipes := value(config.WipeTable)
	if d.facts == nil || d.facts.Size == 0 || d.facts.Table == disk.TableUnknown && !wipes {
		p.unknownPartitions(config, field)
		return
	}
	before, whole := d.volumes, d.whole.content
	if reason := d.unpartitionable(&config); reason != "" {
		p.add(&d.whole, &step{Step: Step{
			Action: Fail, Kind: "partition table", Name: d.out.Device, Field: field + ".wipeTable",
			Rule: reason + ". Set wipeTable to replace it",
		}})
		return
	}
	var wiping *step
	if wipes {
		wiping = p.add(&d.whole, d.wipeTable(field))
	}
	parts := d.partitionSurely(config, field, before, whole)
	isBare := !wipes && d.facts.Table == disk.TableNone && p.facts.Source != disk.SourceBlank
	if made := created(parts); made != nil && isBare {
		made.Notes = append(made.Notes, "if the end of the disk still has the copy of a GPT, such as after its begin was "+
			"zeroed, lsblk and sfdisk do not see it and sgdisk fails: set wipeTable")
	}
	if wiping != nil {
		wiping.wiped(d, before, whole)
	}
	for _, part := range parts {
		p.add(&d.whole, part.step)
	}
}

// partitionNamed returns the partition that the path of a disk in the config names; nil: it names
// none.
func (p *planner) partitionNamed(name string) *volume {
	of := p.diskOf(name)
	if of == nil {
		return nil
	}
	return firstOf(of.volumes, func(v *volume) bool { return slices.Contains(v.paths(), path.Clean(name)) })
}

// partitionOfPartition plans a partition table in a partition, which Ignition makes, and the kernel
// does not read.
func (p *planner) partitionOfPartition(config ignition.Disk, field string, v *volume) {
	s := &step{Step: Step{
		Action: Unknown, Kind: "partition table", Name: config.Device, Field: field + ".device",
		Rule: "the device is a partition, not a disk: Ignition makes a partition table in it, and Linux does not read that",
	}}
	if value(config.WipeTable) || len(config.Partitions) > 0 {
		s.Loses = lostContent(v)
		v.content = disk.Content{}
	}
	p.add(v, s)
}

// unpartitionable says why Ignition cannot partition a disk as it is; "": it can, or wipes the
// partition table first.
func (d *device) unpartitionable(config *ignition.Disk) string {
	whole := d.whole.content
	switch {
	case value(config.WipeTable):
	case d.table == nil:
		return fmt.Sprintf("the disk has a partition table of type %s; Ignition reads only gpt", d.facts.Table)
	case d.facts.Table == disk.TableNone && looksLikeMBR[whole.Type] && len(config.Partitions) > 0:
		return "there is " + article(whole) + " on the whole disk, which sgdisk takes for a DOS partition table and does not change"
	}
	return ""
}

// wipeTable removes the partition table of a disk.
func (d *device) wipeTable(field string) *step {
	s := &step{Step: Step{
		Action: Wipe, Kind: "partition table", Name: d.out.Device, Field: field + ".wipeTable",
		Rule: "wipeTable is true: Ignition removes the partition table before it makes partitions",
	}}
	if d.facts.Table == disk.TableUnknown || !d.whole.content.Known && len(d.volumes) == 0 {
		s.Action = Unknown
		s.Notes = append(s.Notes, "the facts do not say what the disk contains: all of it is lost")
	}
	d.table, d.volumes = disk.NewGPT(d.facts.Sectors(), d.facts.SectorSize), nil
	d.whole.content = disk.Content{Known: d.whole.content.Empty()} // sgdisk does not reach the superblock of btrfs
	return s
}

// wiped says what a removed partition table cost, once the partitions are made.
func (s *step) wiped(d *device, before []*volume, whole disk.Content) {
	s.Loses = lostVolumes(d, before, nil)
	if whole.Type != "" {
		s.Loses = append(s.Loses, whole.String()+" on the whole disk")
	}
	if len(s.Loses) > 0 || s.Action != Wipe {
		return
	}
	s.Action, s.Detail = Create, "gpt"
	if len(before) > 0 {
		s.Notes = append(s.Notes, "each partition is made again where it was: what it contains stays")
	}
}

// partitionSurely is partition, and marks what is not sure: lsblk does not say where the usable part
// of a table begins. sgdisk lets it begin behind the entries, sfdisk at 1 MiB.
func (d *device) partitionSurely(config ignition.Disk, field string, before []*volume,
	whole disk.Content) []*partitionStep {
	other := *d
	other.table = d.table.Clone()
	other.table.First = max(other.table.First, 1<<20/d.facts.SectorSize)
	parts := d.partition(config, field, before, whole)
	isSure := value(config.WipeTable) || d.facts.Table != disk.TableGPT || d.facts.First > 0
	if !isSure && !slices.Equal(places(parts), places(other.partition(config, field, before, whole))) {
		parts[0].step.Action = Unknown
		parts[0].step.Rule = "lsblk does not say where the usable part of the table begins, and the partitions depend on it: " +
			"give the output of sfdisk --json too"
	}
	return parts
}

// partition changes the table and the volumes of a disk, and returns the steps.
func (d *device) partition(config ignition.Disk, field string, before []*volume, whole disk.Content) []*partitionStep {
	parts := partitionSteps(config.Partitions, field, d)
	if d.decide(parts) {
		d.commit(parts, before, whole)
	}
	return parts
}

// created returns the step of the first partition that is made; nil: none is.
func created(parts []*partitionStep) *step {
	for _, part := range parts {
		if part.creates {
			return part.step
		}
	}
	return nil
}

// places are what is done with partitions, and where they are.
func places(parts []*partitionStep) []string {
	var all []string
	for _, part := range parts {
		all = append(all, string(part.step.Action)+" "+part.step.Name+" "+part.step.Detail)
	}
	return all
}

// looksLikeMBR are the file systems whose boot sector ends as a DOS partition table does.
var looksLikeMBR = map[string]bool{"vfat": true, "exfat": true, "ntfs": true}

// unknownPartitions plans a disk that the facts do not have, or not what is on it.
func (p *planner) unknownPartitions(config ignition.Disk, field string) {
	name := config.Device
	if value(config.WipeTable) {
		s := p.lacks(name, &step{Step: Step{
			Kind: "partition table", Name: name, Field: field + ".wipeTable",
			Notes: []string{"wipeTable is true: what the disk contains is lost"},
		}})
		p.ofDisk(s, name)
	}
	for i, part := range config.Partitions {
		s := p.lacks(name, &step{Step: Step{
			Kind: "partition", Name: nameOf(part), Detail: wanted(part), Field: fmt.Sprintf("%s.partitions.%d", field, i),
		}})
		p.ofDisk(s, name)
	}
}

// ofDisk says of a disk that is known by name and size only, as Metal3 knows it, what is missing.
func (p *planner) ofDisk(s *step, name string) {
	if d := p.device(name); d.facts != nil {
		s.Rule = "the disk facts (" + p.facts.Source + ") do not say what is on the disk"
	}
}

// partitionSteps are the partitions of a disk in the order in which Ignition goes through them:
// those without a number come last.
func partitionSteps(specs []ignition.Partition, field string, d *device) []*partitionStep {
	var parts []*partitionStep
	for i, spec := range specs {
		parts = append(parts, &partitionStep{
			spec: spec, start: sectors(spec.StartMiB, d), size: sectors(spec.SizeMiB, d),
			step: &step{Step: Step{Kind: "partition", Name: nameOf(spec), Field: fmt.Sprintf("%s.partitions.%d", field, i)}},
		})
	}
	slices.SortStableFunc(parts, func(a, b *partitionStep) int {
		return anyNumber(a.spec) - anyNumber(b.spec)
	})
	return parts
}

// anyNumber is 1 for a partition that takes the next free number, else 0.
func anyNumber(spec ignition.Partition) int {
	if spec.Number == 0 {
		return 1
	}
	return 0
}

// maxMiB bounds the numbers of a config that are taken for places on a disk, so that no product
// overflows.
const maxMiB = 1 << 43

func sectors(mib *int, d *device) *int64 {
	if mib == nil {
		return nil
	}
	n := int64(min(max(*mib, -maxMiB), maxMiB)) * (1 << 20 / d.facts.SectorSize)
	return &n
}

// nameOf is how steps call a partition of the config.
func nameOf(spec ignition.Partition) string {
	switch label := value(spec.Label); {
	case spec.Number == 0:
		return fmt.Sprintf("%q", label)
	case label != "":
		return fmt.Sprintf("%d %q", spec.Number, label)
	}
	return fmt.Sprint(spec.Number)
}

// wanted is what the config says about the size of a partition.
func wanted(spec ignition.Partition) string {
	if spec.SizeMiB == nil || *spec.SizeMiB == 0 {
		return "to the end of the free block"
	}
	return disk.Size(int64(*spec.SizeMiB) << 20)
}
