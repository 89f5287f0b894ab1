package ignition

import (
	"path"
	"slices"
	"strings"
)

// directoriesDown converts directories to spec 2. The create method of a directory
// (filesystemEntries.go, and files.go before, of internal/exec/stages/files) is not the same in
// all releases:
//   - spec 3, Ignition 2.0 to 2.26: a new directory has mode 0755 and root, an existing one
//     keeps what is not set;
//   - spec 2, Ignition 0.18 to 0.35: new or not, an unset mode is 0 and an unset owner is root;
//   - spec 2.1.0, Ignition 0.17: an existing directory stays as it is, even what is set.
//
// What spec 3 does without a mode or an owner thus depends on whether the machine's image has
// the directory, and spec 2 has nothing that does. But every release makes the directories above
// a file or link if they are missing, with mode 0755 and root, and else leaves them as they are
// (MkdirForFile of internal/exec/util/file.go, 0.6 to 0.35). So a directory of which nothing is
// set, and that has a file or link below, is left out.
func (c *downConversion) directoriesDown(storage object, m mounts, alone bool) {
	directories := objects(storage, "directories")
	if alone { // the directories of another config could be in one that is left out
		directories = slices.DeleteFunc(directories, newImplied(storage, directories, m).has)
	}
	c.parents(directories, m)
	for _, node := range directories {
		if isTrue(node, "overwrite") {
			fill(node, "mode", number(rootMode))
		} else {
			c.keptDown(node)
		}
		c.placeDown(node, m, true)
	}
	setObjects(storage, "directories", directories)
}

// implied has what decides whether a directory of spec 3 is made, and stays, the same without its
// entry.
type implied struct {
	mounts mounts
	// nodes are the sorted paths of files and links, by the path of their filesystem.
	nodes map[string][]string
	// unlike are the directories to which spec 2 would give the mode or owner of one in them.
	unlike map[string]bool
}

func newImplied(storage object, directories []object, m mounts) *implied {
	found := &implied{m, map[string][]string{}, map[string]bool{}}
	for _, node := range append(objects(storage, "files"), objects(storage, "links")...) {
		full := path.Clean(text(node, "path"))
		on := m.covering(full).path
		found.nodes[on] = append(found.nodes[on], full)
	}
	for _, paths := range found.nodes {
		slices.Sort(paths)
	}
	for _, node := range directories {
		if len(unlikeParents(node)) > 0 {
			found.unlike[path.Dir(path.Clean(text(node, "path")))] = true
		}
	}
	return found
}

func (f *implied) has(node object) bool {
	_, mode := node["mode"]
	full := path.Clean(text(node, "path"))
	if mode || hasOwner(node, "user") || hasOwner(node, "group") || isTrue(node, "overwrite") || f.unlike[full] {
		return false
	}
	inside := strings.TrimSuffix(full, "/") + "/"
	paths := f.nodes[f.mounts.covering(full).path]
	i, _ := slices.BinarySearch(paths, inside)
	return i < len(paths) && strings.HasPrefix(paths[i], inside)
}

// keptDown refuses a directory that leaves to an existing one what spec 2 sets.
func (c *downConversion) keptDown(node object) {
	if _, ok := node["mode"]; !ok {
		c.lose(pathOf(node, "mode"),
			"without a mode an existing directory keeps its own in spec 3, and gets mode 0 in spec 2: set the mode")
	}
	for _, key := range []string{"user", "group"} {
		if !hasOwner(node, key) {
			c.lose(pathOf(node, key),
				"without a %s an existing directory keeps its own in spec 3, and gets root in spec 2: set the %[1]s", key)
		}
	}
}

// parents refuses a directory whose missing parents would differ: spec 2 creates them with
// its mode and owner, spec 3 with 0755 and root. The paths are those of spec 3.
func (c *conversion) parents(directories []object, m mounts) {
	declared := map[string]bool{}
	for _, node := range directories {
		declared[path.Clean(text(node, "path"))] = true
	}
	for _, node := range directories {
		full := path.Clean(text(node, "path"))
		above := path.Dir(full)
		if above == "/" || declared[above] || m.mountedAt(above) || m.mountedAt(full) {
			continue
		}
		for _, key := range unlikeParents(node) {
			c.lose(pathOf(node, key),
				"spec 2 gives it to the missing directories above as well, and spec 3 does not: declare %s too", above)
		}
	}
}

// unlikeParents returns the fields of a directory that are set to something else than 0755
// and root.
func unlikeParents(node object) []string {
	var keys []string
	if mode, ok := integer(node, "mode"); ok && mode != rootMode {
		keys = append(keys, "mode")
	}
	for _, key := range []string{"user", "group"} {
		owner := sub(node, key)
		if id, ok := integer(owner, "id"); ok && id != 0 || text(owner, "name") != "" && text(owner, "name") != "root" {
			keys = append(keys, key)
		}
	}
	return keys
}
