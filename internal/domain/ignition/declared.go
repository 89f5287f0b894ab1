package ignition

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// declared has the entries of a config and of those written into it, in the terms of spec
// 3. The majors agree on a config by itself. Of several, spec 3 merges the entries of one
// key, and spec 2 carries out one after the other; spec 3 mounts every filesystem before
// it writes, spec 2 each only for the nodes that name it.
type declared struct {
	// entries has the field of each entry, by its key, such as "users core".
	entries map[string]string
	// mounts has the field of each filesystem, by the path at which it is mounted.
	mounts map[string]string
	nodes  []placed
	// folders are written to without a node that says so.
	folders []string
}

// placed is a node: its path, the field that says it, and the path of the filesystem
// that its own config puts it in.
type placed struct {
	path, field, mount string
}

// keyed are the lists of spec 3 whose entries have a key, and that key.
var keyed = []struct{ section, list, key string }{
	{"passwd", "users", "name"}, {"passwd", "groups", "name"},
	{"storage", "disks", "device"}, {"storage", "raid", "name"}, {"storage", "filesystems", "device"},
}

// declare collects the entries of a config in the form of spec 3, and refuses what its own
// filesystems hide.
func (c *conversion) declare(root object) {
	d := &declared{entries: map[string]string{}, mounts: map[string]string{}}
	storage := sub(root, "storage")
	for _, k := range keyed {
		for _, entry := range objects(sub(root, k.section), k.list) {
			d.entries[k.list+" "+text(entry, k.key)] = pathOf(entry, k.key)
		}
	}
	for _, unit := range objects(sub(root, "systemd"), "units") {
		// Entries of one unit that say different things of it go together.
		key := "units " + text(unit, "name") + " "
		for _, said := range []string{"contents", "enabled", "mask"} {
			if unit[said] != nil {
				d.entries[key+said] = pathOf(unit, said)
			}
		}
		for _, dropin := range objects(unit, "dropins") {
			d.entries[key+"dropins "+text(dropin, "name")] = pathOf(dropin, "name")
		}
	}
	own := mounts{"root": {"root", "/"}}
	for _, fs := range objects(storage, "filesystems") {
		p, field := path.Clean(text(fs, "path")), pathOf(fs, "path")
		if c.from.major == 2 {
			field = strings.TrimSuffix(text(fs, origin), ".mount") + ".name"
		}
		if text(fs, "path") != "" && p != "/" {
			d.mounts[p], own[p] = field, mount{p, p}
		}
	}
	for _, kind := range []string{"directories", "files", "links"} {
		for _, node := range objects(storage, kind) {
			full := path.Clean(text(node, "path"))
			field := pathOf(node, "path")
			d.entries["node "+full] = field
			d.nodes = append(d.nodes, placed{full, field, own.covering(full).path})
		}
	}
	d.folders = foldersOf(root)
	c.declared = d
	for _, p := range slices.Sorted(maps.Keys(d.mounts)) {
		c.refuseHidden(p, d.mounts[p], d.folders)
	}
}

// foldersOf returns the folders that users, groups and units are written to.
func foldersOf(root object) []string {
	var folders []string
	passwd := sub(root, "passwd")
	if sub(root, "systemd")["units"] != nil || passwd["users"] != nil || passwd["groups"] != nil {
		folders = append(folders, "/etc")
	}
	for _, user := range objects(passwd, "users") {
		home := text(user, "homeDir")
		switch name := text(user, "name"); {
		case home != "":
		case name == "root":
			home = "/root"
			folders = append(folders, "/var/roothome") // where /root is on an ostree
		default:
			home = path.Join("/home", name)
		}
		home = path.Clean(home)
		folders = append(folders, home)
		if covers("/home", home) {
			folders = append(folders, path.Join("/var", home)) // as well
		}
	}
	return folders
}

// refuseHidden refuses a filesystem that is mounted over folders that are written to without a
// node: spec 2 writes below the filesystem.
func (c *conversion) refuseHidden(mounted, field string, folders []string) {
	for _, folder := range folders {
		if covers(mounted, folder) {
			c.lose(field, "spec 3 writes users, groups and units to the filesystem that is mounted there, spec 2 to the one "+
				"below, in %s", folder)
			return
		}
	}
}

// include adds the entries of a config written into this one, and refuses entries of both.
func (c *conversion) include(child *declared, there string) {
	all := c.declared
	for _, key := range slices.Sorted(maps.Keys(child.entries)) {
		field := there + strings.TrimPrefix(child.entries[key], "$")
		if other, ok := all.entries[key]; ok {
			c.lose(field, "%s is for the same: spec 3 makes one of the two, spec 2 carries out one after the other", other)
		}
		all.entries[key] = field
	}
	for i := range child.nodes {
		child.nodes[i].field = there + strings.TrimPrefix(child.nodes[i].field, "$")
	}
	c.refuseElsewhere(child.nodes, all.mounts)
	of := map[string]string{}
	for p, field := range child.mounts {
		of[p] = there + strings.TrimPrefix(field, "$")
	}
	c.refuseElsewhere(all.nodes, of)
	for _, p := range slices.Sorted(maps.Keys(of)) {
		if other, ok := all.mounts[p]; ok {
			c.lose(of[p], "%s has this path, too", other)
		}
		c.refuseHidden(p, of[p], all.folders)
	}
	for _, p := range slices.Sorted(maps.Keys(all.mounts)) {
		c.refuseHidden(p, all.mounts[p], child.folders)
	}
	maps.Copy(all.mounts, of)
	all.nodes = append(all.nodes, child.nodes...)
	all.folders = append(all.folders, child.folders...)
}

// refuseElsewhere refuses nodes of one config that lie in a filesystem of another.
func (c *conversion) refuseElsewhere(nodes []placed, mounts map[string]string) {
	if len(mounts) == 0 {
		return
	}
	for _, n := range nodes {
		for p := n.path; len(p) > len(n.mount) && p != "/"; p = path.Dir(p) {
			if field, ok := mounts[p]; ok {
				c.lose(n.field, "spec 3 writes it to the filesystem of %s, spec 2 to the one that its own config says", field)
				break
			}
		}
	}
}

// within2 converts between two versions of spec 2. Most of it is nothing: what a
// version does not have yet is refused at the end.
func (c *conversion) within2(root object, from, to *spec) {
	switch {
	case from.before(first23) && !to.before(first23):
		eachPartition(root, func(p object) {
			// A partition that matches was no partition to keep before 2.3.0: an
			// attribute that is left out is asked for as 0 or "".
			fill(p, "size", number(0))
			fill(p, "start", number(0))
			fill(p, "label", "")
		})
	case to.before(first23) && !from.before(first23):
		eachPartition(root, func(p object) {
			c.refuseKept(p, "size", "sizeMiB")
			c.refuseKept(p, "start", "startMiB")
			c.refuseKept(p, "label", "label")
		})
	}
	if to.before(first22) && !from.before(first22) {
		for _, file := range objects(sub(root, "storage"), "files") {
			// The versions before always overwrite.
			if overwrite, ok := file["overwrite"].(bool); ok && !overwrite {
				c.lose(pathOf(file, "overwrite"),
					"without it writing a file fails where one is there; versions before 2.2.0 always overwrite")
			}
			delete(file, "overwrite")
		}
	}
	switch {
	case from.before(first21) && !to.before(first21):
		c.from20(root)
	case to.before(first21) && !from.before(first21):
		c.to20(root)
	}
}

func eachPartition(root object, do func(object)) {
	for _, disk := range objects(sub(root, "storage"), "disks") {
		for _, p := range objects(disk, "partitions") {
			do(p)
		}
	}
}

func fill(o object, key string, value any) {
	if _, ok := o[key]; !ok {
		o[key] = value
	}
}

// refuseKept refuses a partition that leaves an attribute out, so that an existing
// partition keeps its own.
func (c *conversion) refuseKept(p object, key, other string) {
	_, has := p[key]
	_, hasOther := p[other]
	if !has && !hasOther {
		c.lose(pathOf(p, key),
			"it is left out, which leaves an existing partition's as it is; versions before 2.3.0 set it to nothing")
	}
}

// from20 writes a config of 2.0.0 as 2.1.0.
func (c *conversion) from20(root object) {
	for _, unit := range objects(sub(root, "systemd"), "units") {
		if isTrue(unit, "enable") {
			unit["enabled"] = true
		}
		delete(unit, "enable")
	}
	for _, user := range objects(sub(root, "passwd"), "users") {
		if hash, ok := user["passwordHash"]; ok && hash == "" {
			delete(user, "passwordHash") // was the same as none
		}
	}
}

// to20 writes a config of 2.1.0 as 2.0.0, and refuses what 2.0.0 does differently.
func (c *conversion) to20(root object) {
	for _, unit := range objects(sub(root, "systemd"), "units") {
		enabled, ok := unit["enabled"].(bool)
		switch {
		case ok && enabled:
			unit["enable"] = true
			delete(unit, "enabled")
		case ok:
			c.lose(pathOf(unit, "enabled"), "spec 2.0.0 cannot disable a unit")
		}
	}
	for _, fs := range objects(sub(root, "storage"), "filesystems") {
		if mount := sub(fs, "mount"); mount != nil && mount["create"] == nil {
			c.lose(text(mount, origin), "spec 2.0.0 makes no filesystem without mount.create, which no later version needs")
		}
	}
	for _, user := range objects(sub(root, "passwd"), "users") {
		name := text(user, "name")
		if user["create"] == nil && name != "core" && name != "root" {
			c.lose(text(user, origin), "spec 2.0.0 makes no user without create, which no later version needs")
		}
		if hash, ok := user["passwordHash"]; ok && hash == "" {
			c.lose(pathOf(user, "passwordHash"), "an empty hash forbids passwords; in spec 2.0.0 it is the same as none")
		}
	}
}
