package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"glowplug/internal/domain/ignition"
)

// pair is a disk that a config meets.
type pair struct {
	mib, sector int
	// setup are shell commands that prepare the disk $D with partitions ${D}pN.
	setup []string
}

// placeholder is the device of the disk in the config of a pair.
const placeholder = "/dev/DISK"

var formats = []string{"ext4", "ext4", "xfs", "btrfs", "vfat", "swap"}

// newPair returns the disk of a seed, and what makes its configs. Small disks and few partitions
// meet each other more often.
func newPair(seed uint64) (pair, *generator) {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &generator{Rand: r, pair: pair{mib: 64 + r.IntN(1400), sector: 512}}
	if r.IntN(8) == 0 {
		g.pair.sector = 4096
	}
	g.prepare()
	return g.pair, g
}

// config returns a valid config that is wanted, if there is one among some tries.
func (g *generator) config(device string, wanted func(config []byte) bool) []byte {
	var config []byte
	for range 30 {
		config = []byte(strings.ReplaceAll(g.compose(), placeholder, device))
		if _, found := ignition.Validate(config); !found.HasError() && wanted(config) {
			break
		}
	}
	return config
}

type generator struct {
	*rand.Rand
	pair  pair
	parts []prepared
}

// prepared is a partition that is on the disk before.
type prepared struct {
	number, start, size int // MiB
	label, format       string
	name                string
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) add(format string, args ...any) {
	g.pair.setup = append(g.pair.setup, fmt.Sprintf(format, args...))
}

// prepare gives the disk a table and contents, or one file system as a whole, or nothing.
func (g *generator) prepare() {
	switch g.IntN(10) {
	case 0, 1:
		return
	case 2:
		format := g.one(formats...)
		if enough(format, g.pair.mib) {
			g.add("%s $D", mkfs(format, "whole"))
		}
		return
	case 3:
		g.add("printf 'label: dos\\nsize=32M\\n' | sfdisk -q --no-tell-kernel $D")
		if g.IntN(2) == 0 {
			g.add("sfdisk -q --no-tell-kernel --delete $D")
		}
		return
	}
	// sgdisk makes tables whose first usable sector is the one behind the entries, sfdisk one at 1 MiB.
	table := "label: gpt\\n"
	if g.IntN(4) > 0 {
		table += fmt.Sprintf("first-lba: %d\\n", 2+128*128/g.pair.sector)
	}
	at := 1
	for n := range g.IntN(5) {
		number := n + 1
		if g.IntN(5) == 0 {
			number += 4
		}
		if g.IntN(3) == 0 {
			at += g.IntN(40)
		}
		size := 4 + g.IntN(60)
		if g.IntN(3) == 0 {
			size = 110 + g.IntN(300)
		}
		if at+size >= g.pair.mib-1 {
			break
		}
		part := prepared{number: number, start: at, size: size, label: fmt.Sprintf("old%d", number)}
		sectors := size << 20 / g.pair.sector
		start := at << 20 / g.pair.sector
		if g.IntN(12) == 0 { // not aligned to a MiB, but to 4 KiB
			start += 4096 / g.pair.sector * (1 + g.IntN(20))
		}
		table += fmt.Sprintf("%d: start=%d, size=%d, name=%s\\n", number, start, sectors, part.label)
		if format := g.one(formats...); g.IntN(4) > 0 && enough(format, size) {
			part.format, part.name = format, labelOf(number)
		}
		g.parts = append(g.parts, part)
		at += size + 1
	}
	g.add("printf '%s' | sfdisk -q --no-tell-kernel $D; udevadm trigger $D", table)
	for _, part := range g.parts {
		if part.format != "" {
			g.add("%s ${D}p%d", mkfs(part.format, part.name), part.number)
		}
	}
}

// labelOf is the label of the file system that is on a partition before.
func labelOf(number int) string { return fmt.Sprintf("fs%d", number) }

// enough reports whether a format can be made in so many MiB.
func enough(format string, mib int) bool {
	return format != "xfs" && format != "btrfs" || format == "btrfs" && mib >= 110 || mib >= 300
}

func mkfs(format, label string) string {
	switch format {
	case "ext4":
		return "mkfs.ext4 -q -F -L " + label
	case "xfs":
		return "mkfs.xfs -q -f -L " + label
	case "btrfs":
		return "mkfs.btrfs -q -f -L " + label
	case "vfat":
		return "mkfs.fat -I -n " + strings.ToUpper(label)
	}
	return "mkswap -L " + label
}

// mountable are the formats that the kernel of the test can mount: Ignition mounts file systems
// with a path.
var mountable = func() map[string]bool {
	known, _ := os.ReadFile("/proc/filesystems") // without it none is mounted
	can := map[string]bool{}
	for _, format := range formats {
		can[format] = strings.Contains(string(known), "\t"+format+"\n")
	}
	return can
}()

type object = map[string]any

// compose returns a config whose partitions and file systems are often those of the disk.
func (g *generator) compose() string {
	var partitions, filesystems []object
	disk := object{"device": placeholder}
	if g.IntN(4) == 0 {
		disk["wipeTable"] = true
	}
	used := map[int]bool{}
	for range g.IntN(5) {
		part := g.partition()
		number := part["number"].(int)
		if number > 0 && used[number] {
			continue
		}
		used[number] = true
		partitions = append(partitions, part)
	}
	if len(partitions) > 0 {
		disk["partitions"] = partitions
	}
	device := map[string]bool{}
	for range g.IntN(4) {
		fs := g.filesystem(used)
		name := fs["device"].(string)
		// Ignition makes one on the whole disk and one on a partition at the same time: either can come first.
		if isRace := device[placeholder] || name == placeholder && len(device) > 0; !device[name] && !isRace {
			device[name] = true
			filesystems = append(filesystems, fs)
		}
	}
	storage := object{}
	if g.IntN(10) > 0 {
		storage["disks"] = []object{disk}
	}
	if len(filesystems) > 0 {
		storage["filesystems"] = filesystems
	}
	raw, err := json.Marshal(object{"ignition": object{"version": "3.4.0"}, "storage": storage})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (g *generator) partition() object {
	number := g.IntN(6)
	var old *prepared
	if len(g.parts) > 0 && g.IntN(3) > 0 {
		old = &g.parts[g.IntN(len(g.parts))]
		number = old.number
	}
	part := object{"number": number}
	if g.IntN(3) == 0 {
		part["wipePartitionEntry"] = true
	}
	if old != nil && g.IntN(6) == 0 {
		return object{"number": number, "label": old.label, "sizeMiB": old.size - 3 + g.IntN(40), "resize": true}
	}
	if number > 0 && g.IntN(8) == 0 { // an attribute beside it is invalid
		part["shouldExist"] = false
		return part
	}
	switch {
	case old != nil && g.IntN(2) == 0:
		part["label"] = old.label
	case number == 0 || g.IntN(2) == 0:
		part["label"] = fmt.Sprintf("new%d", g.IntN(100))
	}
	switch g.IntN(4) {
	case 0:
		part["startMiB"] = 0
	case 1:
		switch {
		case old != nil:
			part["startMiB"] = old.start
		case g.IntN(3) == 0:
			part["startMiB"] = 1 + g.IntN(g.pair.mib)
		}
	}
	switch g.IntN(4) {
	case 0:
		part["sizeMiB"] = 0
	case 1, 2:
		part["sizeMiB"] = 4 + g.IntN(g.pair.mib/6)
		if old != nil && g.IntN(2) == 0 {
			part["sizeMiB"] = old.size
		}
	}
	if g.IntN(5) == 0 {
		part["resize"] = true
	}
	if g.IntN(10) == 0 {
		part["typeGuid"] = g.one("0FC63DAF-8483-4772-8E79-3D69D8477DE4", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B")
	}
	return part
}

func (g *generator) filesystem(numbers map[int]bool) object {
	device := placeholder
	var known []int
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		if n > 0 {
			known = append(known, n)
		}
	}
	for i := range g.parts {
		known = append(known, g.parts[i].number)
	}
	number := 1 + g.IntN(5)
	if len(known) > 0 && g.IntN(10) > 0 {
		number = known[g.IntN(len(known))]
	}
	var old *prepared
	for i := range g.parts {
		if g.parts[i].number == number {
			old = &g.parts[i]
		}
	}
	if g.IntN(12) > 0 {
		device = fmt.Sprintf("%sp%d", placeholder, number)
	}
	format := g.one(append(formats, "none")...)
	fs := object{"device": device, "format": format}
	if old != nil && old.format != "" && g.IntN(2) == 0 {
		format = old.format
		fs["format"] = format
		if g.IntN(2) == 0 {
			fs["label"] = old.name
		}
	} else if format != "none" && g.IntN(3) == 0 {
		fs["label"] = g.one("fs1", "FS2", "other")
	}
	if g.IntN(3) == 0 {
		fs["wipeFilesystem"] = true
	}
	if format != "none" && g.IntN(15) == 0 {
		fs["uuid"] = g.one("0a8b4d0e-6c5f-4f5b-9d0a-0f4f3c1b2a10", "A1B2-C3D4", "nonsense")
	}
	if mountable[format] && g.IntN(2) == 0 {
		fs["path"] = fmt.Sprintf("/var/m%d", number)
	}
	return fs
}
