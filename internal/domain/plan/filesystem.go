package plan

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// filesystems plans the file systems, as createFilesystem of Ignition's
// internal/exec/stages/disks/filesystems.go makes them. Ignition makes all that it can, and fails
// at the end where one fails.
func (p *planner) filesystems() {
	list := p.config.Storage.Filesystems
	device := func(i int) []string { return []string{list[i].Device} }
	for _, fs := range list {
		if v := p.find(fs.Device); v != nil && fs.Format != nil {
			v.wanted++
		}
	}
	before, failed := p.failed, p.failed
	for _, i := range p.absentFirst(len(list), device) {
		if p.absent(list[i].Device) {
			before = true
		} else {
			p.failed = before
		}
		p.filesystem(i)
		failed = failed || p.failed
	}
	p.failed = failed
}

func (p *planner) filesystem(i int) {
	fs := p.config.Storage.Filesystems[i]
	field := fmt.Sprintf("storage.filesystems.%d", i)
	format := value(fs.Format)
	s := &step{Step: Step{Kind: "filesystem", Name: describeFilesystem(fs), Detail: mountedAt(fs), Field: field}}
	at := &mount{path: value(fs.Path), format: format, step: s, device: path.Clean(fs.Device)}
	p.paths = append(p.paths, at)
	v := p.find(fs.Device)
	if fs.Format == nil {
		s.Action, s.Rule = Keep, "the config has no format: Ignition does nothing"
	}
	if v == nil {
		p.lacks(fs.Device, s)
		return
	}
	switch {
	case fs.Format == nil:
	case v.usedBy != "":
		s.Action, s.Rule, s.Field = Fail, "the device is in use: "+v.usedBy, field+".device"
	case v.wanted > 1:
		s.Action, s.Field = Unknown, field+".device"
		s.Rule = "the config has several file systems on this device, under different names, which Ignition makes " +
			"at the same time"
	default:
		decideFilesystem(s, fs, v, field)
	}
	p.add(v, s)
	if s.Action == Create || s.Action == Wipe || s.Action == Unknown && value(fs.WipeFilesystem) {
		v.overwrite(disk.Content{Type: typeOf(format), Label: value(fs.Label), UUID: value(fs.UUID)})
		at.fresh = true
	}
	at.volume = v
}

// describeFilesystem is how steps call a file system of the config.
func describeFilesystem(fs ignition.Filesystem) string {
	if label := value(fs.Label); label != "" {
		return fmt.Sprintf("%s %q", value(fs.Format), label)
	}
	return cmp.Or(value(fs.Format), fs.Device)
}

func mountedAt(fs ignition.Filesystem) string {
	if p := value(fs.Path); p != "" && isMounted(value(fs.Format)) {
		return "mounted at " + p
	}
	return ""
}

// isMounted reports whether Ignition mounts file systems of a format.
func isMounted(format string) bool { return format != "" && format != "none" && format != "swap" }

// decideFilesystem is the rule of the operator notes: no preexisting file system, a matching one,
// another one, and wipeFilesystem.
func decideFilesystem(s *step, fs ignition.Filesystem, v *volume, field string) {
	format, found := value(fs.Format), v.content
	if !value(fs.WipeFilesystem) {
		switch {
		case !found.Known:
			s.Action, s.Rule = Unknown, "the disk facts do not say whether there is a file system"
			if v.part == nil && v.device.table != nil {
				s.Rule = leftover
			}
			s.Rule = cmp.Or(v.unclear, s.Rule)
			s.Notes = append(s.Notes, "Ignition reuses "+format+", fails on another file system, and makes one where "+
				"there is none")
			return
		case format == "none" && found.Type == "":
			s.Action, s.Rule = Keep, "there is no file system, and the format is none"
			return
		case found.Type == typeOf(format) && found.Type != "":
			if differs, at := differsFrom(fs, found); differs != "" {
				s.Action, s.Field = Fail, field+"."+at
				s.Rule = "there is " + article(found) + ", " + differs + ", and wipeFilesystem does not allow to replace it"
				return
			}
			s.Action, s.Rule = Reuse, "the file system matches: what it contains stays"
			return
		case found.Type != "":
			s.Action, s.Field = Fail, field+".wipeFilesystem"
			s.Rule = "there is " + article(found) + ", the config says " + format +
				", and wipeFilesystem does not allow to replace it"
			return
		}
	}
	if reason, at := cannotMake(fs, v); reason != "" {
		s.Action, s.Rule, s.Field = Fail, reason, field+"."+at
		s.Loses = lostContent(v)
		return
	}
	s.Action, s.Rule = Create, "there is no file system"
	if v.part == nil && v.device.hasPartitions() {
		s.Rule = "wipefs removes the partition table of the disk: to blkid the whole disk has no file system"
	}
	if value(fs.WipeFilesystem) {
		s.Field = field + ".wipeFilesystem"
		s.Rule = "wipeFilesystem is true: Ignition makes a new file system whatever is there"
	}
	s.replaces(v)
	if v.part == nil && slices.ContainsFunc(v.device.volumes, func(part *volume) bool { return part.wanted > 0 }) {
		s.Action = Unknown
		s.Rule = "the config has a file system on the whole disk, and one on a partition of it: Ignition makes both at the " +
			"same time, and fails where one finds the other busy"
	}
}

// replaces sets what is lost where something new is made on a volume.
func (s *step) replaces(v *volume) {
	// What was in the place of a new partition is lost with the former partition.
	isNew := v.step != nil && (v.step.Action == Create || v.step.Action == Wipe) && !v.inherits
	s.Loses = append(s.Loses, lostContent(v)...)
	switch {
	case len(s.Loses) > 0:
		s.Action = Wipe
	case !v.content.Known && !isNew:
		s.Action = Unknown
		s.Notes = append(s.Notes, "the disk facts do not say what "+v.place()+" contains: all of it is lost")
	}
}

// leftover says why a whole disk is unknown on which this boot makes a partition table: the
// superblocks of some file systems lie where the table does not reach.
const leftover = "the new partition table can leave a part of what was on the whole disk, which blkid recognises"

// lostContent is what a volume loses when a file system, an array or an encrypted volume is made
// on it.
func lostContent(v *volume) (lost []string) {
	if v.part == nil && v.device.hasPartitions() {
		lost = lostVolumes(&device{}, v.device.volumes, nil)
	}
	if v.content.Known && v.content.Type != "" {
		lost = append(lost, fmt.Sprintf("%s on %s, %s", v.content, v.place(), disk.Size(v.content.Bytes)))
	}
	return lost
}

// overwrite puts something new on a volume; on a whole disk it takes the place of the partitions.
func (v *volume) overwrite(content disk.Content) {
	if v.part == nil {
		v.device.volumes = nil
	}
	content.Known, content.Bytes = true, v.bytes
	v.content = content
}

func (d *device) hasPartitions() bool { return d.facts != nil && len(d.volumes) > 0 }

// isExact reports whether the size of a volume is known to the byte.
func (v *volume) isExact() bool {
	return v.bytes > 0 && (v.device.facts == nil || !v.device.facts.Rounded)
}

// place is the path of a volume.
func (v *volume) place() string {
	if v.part != nil {
		return cmp.Or(v.part.Path, v.device.facts.PartitionPath(v.number))
	}
	return cmp.Or(v.device.out.Path, v.device.out.Device)
}

// article is a content as the subject of a sentence.
func article(c disk.Content) string {
	switch c.Type {
	case "crypto_LUKS":
		return "an encrypted volume (LUKS)"
	case "linux_raid_member":
		return "a member of an array (linux_raid_member)"
	case "swap":
		return "a swap area"
	case "ext4", "ext3", "ext2", "xfs":
		return "an " + c.String() + " file system"
	}
	return "a " + c.String() + " file system"
}

// typeOf is the type of blkid for a format of Ignition.
func typeOf(format string) string {
	if format == "none" {
		return ""
	}
	return format
}

// differsFrom says in what an existing file system of the right type does not match.
func differsFrom(fs ignition.Filesystem, found disk.Content) (differs, field string) {
	switch {
	case fs.Label != nil && *fs.Label != found.Label:
		return fmt.Sprintf("its label is %q, the config says %q", found.Label, *fs.Label), "label"
	case fs.UUID != nil && sameUUID(found.Type, found.UUID) != sameUUID(found.Type, *fs.UUID):
		return fmt.Sprintf("its UUID is %s, the config says %s", found.UUID, *fs.UUID), "uuid"
	}
	return "", ""
}

// sameUUID is the form in which Ignition compares UUIDs (canonicalizeFilesystemUUID).
func sameUUID(format, uuid string) string {
	uuid = strings.ToLower(uuid)
	if format == "vfat" && len(uuid) >= 5 && uuid[4] == '-' {
		return uuid[:4] + uuid[5:]
	}
	return uuid
}

// smallest are the sizes below which mkfs refuses to make a file system: mkfs.xfs since xfsprogs
// 5.19, and mkfs.btrfs with its metadata twice, as it does by default.
var smallest = map[string]int64{"xfs": 300 << 20, "btrfs": 114_294_784}

var (
	longUUID  = regexp.MustCompile(`^[[:xdigit:]]{8}-[[:xdigit:]]{4}-[[:xdigit:]]{4}-[[:xdigit:]]{4}-[[:xdigit:]]{12}$`)
	shortUUID = regexp.MustCompile(`^[[:xdigit:]]{8}$`)
)

// cannotMake says why mkfs fails; "": nothing is known that makes it fail. Options can change it.
func cannotMake(fs ignition.Filesystem, v *volume) (reason, field string) {
	format := value(fs.Format)
	switch {
	case v.isExact() && v.bytes < smallest[format] && len(fs.Options) == 0:
		return fmt.Sprintf("mkfs.%s refuses less than %s, and %s has %s", format, disk.Size(smallest[format]), v.place(),
			disk.Size(v.bytes)), "device"
	case fs.UUID == nil || format == "none":
	case format == "vfat" && !shortUUID.MatchString(sameUUID(format, *fs.UUID)):
		return fmt.Sprintf("%q is no volume ID of vfat: it has 8 hexadecimal digits", *fs.UUID), "uuid"
	case format != "vfat" && !longUUID.MatchString(*fs.UUID):
		return fmt.Sprintf("%q is no UUID: mkfs refuses it", *fs.UUID), "uuid"
	}
	return "", ""
}

// mount is a file system of the config, and where it is mounted while files are written.
type mount struct {
	// device is its device in the config.
	path, format, device string
	// fresh is true where the file system is made by this boot, so that it contains nothing.
	fresh  bool
	volume *volume
	step   *step
}

// mounts are the file systems that are mounted while files are written, by their path.
type mounts map[string]*mount

// mount plans the mounts, which Ignition does before it writes files: those nearer to the root
// first (internal/exec/stages/mount/mount.go).
func (p *planner) mount() {
	mounted := slices.DeleteFunc(p.paths, func(m *mount) bool { return m.path == "" || !isMounted(m.format) })
	for _, m := range mounted {
		m.path = path.Clean(m.path)
	}
	slices.SortStableFunc(mounted, func(a, b *mount) int { return depth(a.path) - depth(b.path) })
	for _, m := range mounted {
		v := m.volume
		if gone := m.lostName(); gone != "" {
			p.failMount(m, "Ignition mounts "+m.device+", and the new file system has another "+gone)
		}
		if m.step.Action == Reuse && v.content.Bytes > 0 && v.bytes < v.content.Bytes {
			p.failMount(m, fmt.Sprintf("the file system was made for %s, and the partition has %s",
				disk.Size(v.content.Bytes), disk.Size(v.bytes)))
		}
	}
	p.mounts = mounts{}
	for _, m := range mounted {
		p.mounts[m.path] = m // of two at one path, the later hides the earlier
	}
}

// failMount adds the failure of a mount below its file system.
func (p *planner) failMount(m *mount, rule string) {
	failing := &step{Step: Step{Action: Fail, Kind: "mount", Name: m.path, Field: m.step.Field, Rule: rule}}
	m.step.below = append(m.step.below, p.reach(failing))
}

// lostName says which name of a device a new file system takes away, so that it cannot be mounted
// by that name; "": none.
func (m *mount) lostName() string {
	if !m.fresh {
		return ""
	}
	if label, ok := strings.CutPrefix(m.device, "/dev/disk/by-label/"); ok && label != encoded(m.volume.content.Label) {
		return "label"
	}
	if id, ok := strings.CutPrefix(m.device, "/dev/disk/by-uuid/"); ok && !strings.EqualFold(id, m.volume.content.UUID) {
		return "UUID"
	}
	return ""
}

func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}
