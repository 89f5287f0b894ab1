package plan

import (
	"fmt"
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
	d := p.device(config.Device)
	wipes := value(config.WipeTable)
	if d.facts == nil || d.facts.Size == 0 || d.facts.Table == disk.TableUnknown && !wipes {
		p.unknownPartitions(config, field)
		return
	}
	before := d.volumes
	whole := d.whole.content
	var wiping *step
	switch {
	case wipes:
		wiping = p.add(&d.whole, &step{Step: Step{
			Action: Wipe, Kind: "partition table", Name: d.out.Device, Field: field + ".wipeTable",
			Rule: "wipeTable is true: Ignition removes the partition table before it makes partitions",
		}})
		if d.facts.Table == disk.TableUnknown {
			wiping.Action = Unknown
			wiping.Notes = append(wiping.Notes, "the facts do not say what the disk contains: all of it is lost")
		}
		d.table, d.volumes = disk.NewGPT(d.facts.Sectors(), d.facts.SectorSize), nil
		d.whole.content = disk.Content{Known: whole.Empty()} // sgdisk does not reach the superblock of btrfs
	case d.table == nil:
		p.add(&d.whole, &step{Step: Step{
			Action: Fail, Kind: "partition table", Name: d.out.Device, Field: field + ".wipeTable",
			Rule: fmt.Sprintf("the disk has a partition table of type %s; Ignition reads only gpt. Set wipeTable to replace it",
				d.facts.Table),
		}})
		return
	}
	if looksLikeMBR[whole.Type] && !wipes && len(config.Partitions) > 0 {
		p.add(&d.whole, &step{Step: Step{
			Action: Fail, Kind: "partition table", Name: d.out.Device, Field: field + ".wipeTable",
			Rule: "there is " + article(whole) + " on the whole disk, which sgdisk takes for a DOS partition table and does not " +
				"change. Set wipeTable to replace it",
		}})
		return
	}
	// lsblk does not say where the usable part of a table begins: sgdisk lets it begin behind the
	// entries, sfdisk at 1 MiB.
	other := *d
	other.table = d.table.Clone()
	other.table.First = max(other.table.First, 1<<20/d.facts.SectorSize)
	parts := d.partition(config, field, before, whole)
	if !wipes && d.facts.Table == disk.TableGPT && d.facts.First == 0 &&
		!slices.Equal(places(parts), places(other.partition(config, field, before, whole))) {
		parts[0].step.Action = Unknown
		parts[0].step.Rule = "lsblk does not say where the usable part of the table begins, and the partitions depend on it: " +
			"give the output of sfdisk --json too"
	}
	if wiping != nil {
		wiping.Loses = lostVolumes(d, before, nil)
		if whole.Type != "" {
			wiping.Loses = append(wiping.Loses, whole.String()+" on the whole disk")
		}
		if len(wiping.Loses) == 0 && wiping.Action == Wipe {
			wiping.Action, wiping.Detail = Create, "gpt"
			if len(before) > 0 {
				wiping.Notes = append(wiping.Notes, "each partition is made again where it was: what it contains stays")
			}
		}
	}
	for _, part := range parts {
		p.add(&d.whole, part.step)
	}
}

// partition changes the table and the volumes of a disk, and returns the steps.
func (d *device) partition(config ignition.Disk, field string, before []*volume, whole disk.Content) []*partitionStep {
	parts := partitionSteps(config.Partitions, field, d)
	if d.decide(parts) {
		d.commit(parts, before, whole)
	}
	return parts
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
