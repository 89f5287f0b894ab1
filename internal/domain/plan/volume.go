package plan

import (
	"cmp"
	"fmt"
	"strings"

	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/ignition"
)

// raids plans the arrays.
func (p *planner) raids() {
	list := p.config.Storage.Raid
	members := func(i int) (names []string) {
		for _, member := range list[i].Devices {
			names = append(names, string(member))
		}
		return names
	}
	for _, i := range p.absentFirst(len(list), members) {
		p.raid(i)
	}
}

// arrayPath returns the device of an array, whose name can be a path.
func arrayPath(name string) string {
	if strings.HasPrefix(name, "/dev") {
		return name
	}
	return "/dev/md/" + name
}

// raid plans an array, as createRaids of Ignition's internal/exec/stages/disks/raid.go makes it:
// mdadm --create --force --run asks nothing, so what the members contain is lost.
func (p *planner) raid(i int) {
	config := p.config.Storage.Raid[i]
	d := p.device(arrayPath(config.Name))
	s := &step{Step: Step{
		Action: Create, Kind: "raid", Name: config.Name, Field: fmt.Sprintf("storage.raid.%d", i),
		Rule: "Ignition always makes the array: it reuses none",
	}}
	members, sizes, wasMember := []string{}, []int64{}, false
	for _, member := range config.Devices {
		v := p.find(string(member))
		if v == nil {
			if s.Action, s.Rule = Unknown, p.unknownDevice()+": "+string(member); p.absent(string(member)) {
				s.Action, s.Rule = Fail, "there is no device "+string(member)+": Ignition waits for it and fails"
			}
			members = append(members, string(member))
			continue
		}
		members, sizes = append(members, v.place()), append(sizes, v.bytes)
		wasMember = wasMember || !v.content.Known || v.content.Type == "linux_raid_member"
		if v.usedBy != "" {
			s.Action, s.Rule = Fail, "the device "+v.place()+" is in use: "+v.usedBy
		}
		if s.Action == Create || s.Action == Wipe {
			s.replaces(v)
		}
		v.overwrite(disk.Content{Type: "linux_raid_member"})
		v.usedBy = "the array " + config.Name + " of the config has it"
	}
	active := len(config.Devices) - value(config.Spares)
	if needs := fewest[strings.TrimPrefix(value(config.Level), "raid")]; active < needs {
		s.Action, s.Rule = Fail, fmt.Sprintf("mdadm needs at least %d devices for %s, and the config has %d", needs,
			value(config.Level), active)
	}
	if spares := value(config.Spares); spares > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d of the devices are spares", spares))
	}
	if len(sizes) == len(config.Devices) {
		d.out.Size = arraySize(value(config.Level), sizes, value(config.Spares))
	}
	if s.Action == Fail {
		s.Loses = nil // Ignition waits for all devices, and mdadm looks at all, before the first is written
	}
	s.Detail = fmt.Sprintf("%s of %s", value(config.Level), strings.Join(members, ", "))
	p.add(&d.whole, s)
	// An array over the members of an earlier one has its data, and its file system, where that had
	// it. With options, such as --metadata=1.0, that can be so for what the members contained.
	d.whole.bytes, d.whole.step = d.out.Size, s
	d.whole.content = disk.Content{Known: s.Action != Unknown && !wasMember && len(config.Options) == 0}
}

// fewest are the numbers of devices below which mdadm refuses a level (Create.c of mdadm).
var fewest = map[string]int{"4": 2, "5": 2, "6": 4, "10": 2}

// arraySize is the size of an array without the little that mdadm keeps for itself.
func arraySize(level string, sizes []int64, spares int) int64 {
	if len(sizes) == 0 || spares < 0 || spares >= len(sizes) {
		return 0
	}
	smallest, sum := sizes[0], int64(0)
	for _, size := range sizes {
		smallest, sum = min(smallest, size), sum+size
	}
	n := int64(len(sizes) - spares)
	switch strings.TrimPrefix(level, "raid") {
	case "0", "linear", "stripe":
		return sum
	case "1", "mirror":
		return smallest
	case "4", "5":
		return smallest * max(n-1, 0)
	case "6":
		return smallest * max(n-2, 0)
	case "10":
		return smallest * n / 2
	}
	return 0
}

// encrypt plans the encrypted volumes.
func (p *planner) encrypt() {
	list := p.config.Storage.Luks
	device := func(i int) []string { return []string{value(list[i].Device)} }
	for _, i := range p.absentFirst(len(list), device) {
		p.luks(i)
	}
}

// luks plans an encrypted volume, as createLuks of Ignition's internal/exec/stages/disks/luks.go
// makes it.
func (p *planner) luks(i int) {
	config := p.config.Storage.Luks[i]
	field := fmt.Sprintf("storage.luks.%d", i)
	s := &step{Step: Step{
		Kind: "luks", Name: config.Name, Detail: keysOf(config), Field: field, Notes: notesOfKeys(config),
	}}
	d := p.device("/dev/mapper/" + config.Name)
	v := p.find(value(config.Device))
	if v == nil {
		p.lacks(value(config.Device), s)
		d.whole.step = s
		return
	}
	if v.usedBy != "" {
		s.Action, s.Rule, s.Field = Fail, "the device is in use: "+v.usedBy, field+".device"
	} else {
		decideLuks(s, config, v, field)
	}
	p.add(v, s)
	v.usedBy = "the encrypted volume " + config.Name + " of the config is on it"
	d.whole.step, d.whole.bytes = s, max(v.bytes-headerOfLuks, 0)
	d.whole.content = disk.Content{Known: s.Action == Create || s.Action == Wipe}
	if s.Action == Create || s.Action == Wipe {
		v.overwrite(disk.Content{Type: luksType, Version: "2", Label: value(config.Label), UUID: value(config.UUID)})
	}
}

const (
	luksType = "crypto_LUKS"
	// headerOfLuks is the size of the header that cryptsetup makes for LUKS2, in bytes.
	headerOfLuks = 16 << 20
)

func decideLuks(s *step, config ignition.Luks, v *volume, field string) {
	found := v.content
	if value(config.WipeVolume) {
		s.Action, s.Field = Create, field+".wipeVolume"
		s.Rule = "wipeVolume is true: Ignition makes a new volume whatever is there"
		s.replaces(v)
		return
	}
	s.Field = field + ".wipeVolume"
	switch {
	case !found.Known:
		s.Action, s.Rule = Unknown, cmp.Or(strings.Replace(v.unclear, "wipeFilesystem", "wipeVolume", 1),
			"the disk facts do not say what the device contains")
	case found.Type == luksType:
		if reason, at := cannotReuse(config, found); reason != "" {
			s.Action, s.Field = Fail, field+"."+at
			s.Rule = "there is an encrypted volume, which Ignition cannot reuse: " + reason
			return
		}
		s.Action, s.Rule, s.Field = Reuse, "there is an encrypted volume that matches: what it contains stays", field
		s.Notes = append(s.Notes, "Ignition fails if the key file does not open the volume, or if the volume "+
			"allows discards otherwise than the config says: the disk facts have neither")
	case found.Type != "":
		s.Action = Fail
		s.Rule = "there is " + article(found) + ", and wipeVolume does not allow to replace it"
	default:
		s.Action, s.Rule, s.Field = Create, "the device contains nothing", field
		s.replaces(v)
	}
}

// cannotReuse says why a volume is not reused (reuseLuksDevice); "": nothing is known against it.
func cannotReuse(config ignition.Luks, found disk.Content) (reason, field string) {
	switch {
	case found.Version == "1":
		return "it is of LUKS version 1", "wipeVolume"
	case isClevis(config):
		return "the config binds it with clevis", "clevis"
	case value(config.KeyFile.Source) == "":
		return "the config has no key file", "keyFile"
	case config.Label != nil && *config.Label != found.Label:
		return fmt.Sprintf("its label is %q, the config says %q", found.Label, *config.Label), "label"
	case config.UUID != nil && found.UUID != *config.UUID:
		return fmt.Sprintf("its UUID is %s, the config says %s", found.UUID, *config.UUID), "uuid"
	}
	return "", ""
}

func isClevis(config ignition.Luks) bool {
	c := config.Clevis
	return len(c.Tang) > 0 || value(c.Tpm2) || value(c.Custom.Pin) != ""
}

// keysOf says what opens an encrypted volume.
func keysOf(config ignition.Luks) string {
	var keys []string
	c := config.Clevis
	for _, tang := range c.Tang {
		keys = append(keys, "tang server "+shownURL(tang.URL))
	}
	if value(c.Tpm2) {
		keys = append(keys, "the TPM of the machine")
	}
	if pin := value(c.Custom.Pin); pin != "" {
		keys = append(keys, "clevis pin "+pin)
	}
	switch {
	case value(config.Cex.Enabled):
		keys = append(keys, "a CEX card")
	case value(config.KeyFile.Source) != "":
		keys = append(keys, "a key file")
	case len(keys) == 0:
		keys = append(keys, "a key that Ignition makes")
	}
	text := "opened by " + strings.Join(keys, " or ")
	if threshold := value(c.Threshold); threshold > 1 {
		text = fmt.Sprintf("opened by %d of %s", threshold, strings.Join(keys, ", "))
	}
	return text
}

// notesOfKeys warns of a key that does not protect.
func notesOfKeys(config ignition.Luks) []string {
	if isClevis(config) || value(config.Cex.Enabled) {
		return nil
	}
	return []string{"the key is kept in /etc/luks/" + cmp.Or(config.Name, "NAME") +
		": it protects only where the root file system is encrypted too"}
}
