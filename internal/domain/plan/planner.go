package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// planner goes through a config in the order in which Ignition does, and keeps the state of the
// machine that each step leaves.
type planner struct {
	config *ignition.Config
	facts  *disk.Facts
	disks  *disk.Index
	// devices are the disks, arrays and encrypted volumes: first those of the facts, then others
	// that the config names. byName has them by the names that are known.
	devices []*device
	byName  map[string]*device
	// index has the volumes by the paths of their devices; nil: several have this path.
	index map[string]*volume
	// paths are the file systems of the config in its order, and mounts those that are mounted.
	paths  []*mount
	mounts mounts
	// failed is true after a step that ends Ignition.
	failed bool
}

// step is a Step that is still being built.
type step struct {
	Step
	below []*step
}

func newPlanner(config *ignition.Config, facts *disk.Facts) *planner {
	p := &planner{config: config, facts: facts, disks: disk.NewIndex(facts), byName: map[string]*device{}}
	for i := range facts.Disks {
		p.addDevice(newDevice(&facts.Disks[i]))
	}
	return p
}

// addDevice adds a device under all its names. A name that several disks have is none.
func (p *planner) addDevice(d *device) {
	p.devices = append(p.devices, d)
	for _, name := range append(d.aliases(), d.out.Device) {
		if other, twice := p.byName[name]; twice && other != d && d.facts != nil {
			p.byName[name] = nil
		} else {
			p.byName[name] = d
		}
	}
}

// known returns the device with a name, also one that ends in the serial number of a disk; nil:
// there is none.
func (p *planner) known(name string) *device {
	if d := p.byName[name]; d != nil {
		return d
	}
	if found := p.disks.Find(name); found != nil {
		return p.byName[found.Path]
	}
	return nil
}

// run goes through the stages of Ignition: kargs, disks, mount, files.
func (p *planner) run() *Plan {
	for i := range p.config.Storage.Disks {
		p.partition(i)
	}
	p.reindex()
	p.raids()
	p.reindex()
	p.encrypt()
	p.reindex()
	p.filesystems()
	p.mount()
	c := p.config
	result := &Plan{
		Machine: finish(slices.Concat(kernelArguments(c), groups(c, p.failed), users(c.Passwd.Users, p.failed),
			paths(c, p.mounts, p.failed), units(c.Systemd.Units, p.failed), fetches(c, p.failed))),
		Warnings: warnings(c),
	}
	for _, d := range p.devices {
		if len(d.steps) > 0 {
			result.Devices = append(result.Devices, d.finish(p.failed))
		}
	}
	return result
}

// finish returns steps with those below them.
func finish(steps []*step) []Step {
	var out []Step
	for _, s := range steps {
		s.Steps = finish(s.below)
		out = append(out, s.Step)
	}
	return out
}

// reach sets NotReached of a step after a failed step, and notes the failure of the step.
func (p *planner) reach(s *step) *step {
	s.NotReached = p.failed
	p.failed = p.failed || s.Action == Fail
	return s
}

// device returns the device that a path of the config names, which it adds if it is unknown.
func (p *planner) device(name string) *device {
	name = path.Clean(name)
	if d := p.known(name); d != nil {
		d.named(name)
		return d
	}
	d := &device{out: Device{Device: name}}
	d.whole = volume{device: d}
	p.addDevice(d)
	return d
}

// reindex collects the paths of all volumes as they are now.
func (p *planner) reindex() {
	p.index = map[string]*volume{}
	add := func(name string, v *volume) {
		if name == "" {
			return
		}
		if other, twice := p.index[name]; twice && other != v {
			v = nil
		}
		p.index[name] = v
	}
	for _, d := range p.devices {
		for _, v := range append([]*volume{&d.whole}, d.volumes...) {
			for _, name := range v.paths() {
				add(name, v)
			}
			if v.content.Label != "" {
				add("/dev/disk/by-label/"+encoded(v.content.Label), v)
			}
			if v.content.UUID != "" {
				add("/dev/disk/by-uuid/"+strings.ToLower(v.content.UUID), v)
			}
		}
	}
}

// find returns the volume that a path of the config names; nil: the facts do not say.
func (p *planner) find(name string) *volume {
	name = path.Clean(name)
	for _, folder := range []string{"/dev/disk/by-uuid/", "/dev/disk/by-partuuid/"} {
		if id, ok := strings.CutPrefix(name, folder); ok {
			name = folder + strings.ToLower(id)
		}
	}
	v := p.index[name]
	whole, number := cutPart(name)
	if d := p.known(whole); v == nil && d != nil && d.facts != nil { // by a name that ends in the serial number
		d.named(whole)
		v = d.volume(number)
	}
	if v != nil && v.number == 0 {
		v.device.named(name)
	}
	return v
}

// cutPart cuts the number of a partition off a name below /dev/disk, such as NAME-part1; 0: it has
// none.
func cutPart(name string) (whole string, number int) {
	if i := strings.LastIndex(name, "-part"); i > 0 {
		if n := disk.NumberOf(name[:i], name); n > 0 {
			return name[:i], n
		}
	}
	return name, 0
}

// add adds a step on a volume: below the step that makes or finds the volume, else to the device.
func (p *planner) add(v *volume, s *step) *step {
	p.reach(s)
	if v.step != nil {
		v.step.below = append(v.step.below, s)
	} else {
		v.device.steps = append(v.device.steps, s)
	}
	return s
}

// lacks plans a step on a device that is not there, or that the facts do not have.
func (p *planner) lacks(name string, s *step) *step {
	s.Action, s.Rule = Unknown, p.unknownDevice()
	d := p.device(name)
	if of := p.diskOf(name); of != nil {
		s.Action, s.Rule = Fail, "there is no device "+path.Clean(name)+": Ignition waits for it and fails"
		d = of
	}
	d.steps = append(d.steps, p.reach(s))
	return s
}

// diskOf returns the disk that a path names a partition of, where its partitions are known.
func (p *planner) diskOf(name string) *device {
	name = path.Clean(name)
	whole, number := cutPart(name)
	if number == 0 { // the number follows the name, or a p where the name ends in a digit
		whole = strings.TrimRight(name, "0123456789")
		if cut := strings.TrimSuffix(whole, "p"); p.known(cut) != nil && disk.NumberOf(cut, name) > 0 {
			whole = cut
		}
		number = disk.NumberOf(whole, name)
	}
	d := p.known(whole)
	if number == 0 || d == nil || d.facts == nil || d.facts.Table == disk.TableUnknown && d.table == nil {
		return nil
	}
	return d
}

// absent reports whether a device that a path names is not there. Ignition waits for all devices
// of a list of the config before it does anything with the first.
func (p *planner) absent(name string) bool { return p.find(name) == nil && p.diskOf(name) != nil }

// absentFirst returns the indexes of a list of the config in the order in which the entries are
// planned: those first that Ignition waits for in vain.
func (p *planner) absentFirst(n int, devices func(i int) []string) []int {
	var first, others []int
	for i := range n {
		if slices.ContainsFunc(devices(i), p.absent) {
			first = append(first, i)
		} else {
			others = append(others, i)
		}
	}
	return append(first, others...)
}

// value returns what a pointer of a config points to, or the zero value.
func value[T any](pointer *T) T {
	if pointer == nil {
		var zero T
		return zero
	}
	return *pointer
}

// unknownDevice says what is missing for a plan.
func (p *planner) unknownDevice() string {
	if p.facts.Source == "" {
		return "there are no disk facts"
	}
	return "the disk facts (" + cmp.Or(p.facts.Source, "none") + ") do not have this device"
}
