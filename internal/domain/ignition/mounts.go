package ignition

import (
	"path"
	"strings"
)

// mount is a filesystem that nodes are written to: spec 2 calls it by a name, spec 3
// by the path at which it is mounted.
type mount struct {
	name, path string
}

// mounts has every such filesystem of a config, by name.
type mounts map[string]mount

// covering returns the mount that a path of spec 3 lies in: the deepest that covers it.
func (m mounts) covering(full string) mount {
	best := m["root"]
	for _, candidate := range m {
		deeper := len(candidate.path) > len(best.path)
		if covers(candidate.path, full) && (deeper || candidate.path == best.path && candidate.name < best.name &&
			best.path != "/") {
			best = candidate
		}
	}
	return best
}

// mountedAt reports whether a filesystem is mounted at a path.
func (m mounts) mountedAt(full string) bool {
	for _, candidate := range m {
		if candidate.path == full {
			return true
		}
	}
	return false
}

// covers reports whether a path is a folder or lies in it. Both are clean.
func covers(folder, full string) bool {
	return folder == "/" || full == folder || strings.HasPrefix(full, folder+"/")
}

// filesystemsUp converts storage.filesystems and says where each of them is. A name
// that is an absolute path is taken as that place: it is the only one that the
// filesystem has in the config.
func (c *upConversion) filesystemsUp(root, storage object) mounts {
	used := map[string]bool{}
	for _, kind := range []string{"files", "directories", "links"} {
		for _, node := range objects(storage, kind) {
			used[text(node, "filesystem")] = true
		}
	}
	config := sub(root, "ignition", "config")
	more := config["merge"] != nil || config["replace"] != nil
	found := mounts{"root": {"root", "/"}}
	seen := map[string]bool{}
	var out []object
	for _, fs := range objects(storage, "filesystems") {
		name := text(fs, "name")
		if name != "" && seen[name] {
			c.lose(pathOf(fs, "name"), "two filesystems have this name, of which spec 2 takes the last")
		}
		seen[name] = true
		if _, ok := fs["path"]; ok {
			if path.Clean(text(fs, "path")) != "/sysroot" {
				c.lose(pathOf(fs, "path"), "spec 3 cannot say where a filesystem is mounted already, but for /sysroot")
			}
			found[name] = mount{name, "/"}
			continue
		}
		given := sub(fs, "mount")
		filesystem := object{origin: text(given, origin)}
		move(given, filesystem, "device", "format", "label", "options", "uuid", "wipeFilesystem")
		c.createUp(given, filesystem)
		switch {
		case name == "root":
			filesystem["path"] = "/"
		case path.IsAbs(name):
			filesystem["path"] = path.Clean(name)
			found[name] = mount{name, path.Clean(name)}
		case used[name] || name != "" && more:
			c.lose(pathOf(fs, "name"), "spec 3 has no names of filesystems and writes by path: name it by the path at which it "+
				"is to be mounted, such as /var/lib/data")
			found[name] = mount{name, ""}
		}
		out = append(out, filesystem)
	}
	setObjects(storage, "filesystems", out)
	return found
}

// createUp converts mount.create, which spec 2.1.0 replaced.
func (c *upConversion) createUp(given, filesystem object) {
	create, ok := given["create"].(object)
	if !ok {
		return
	}
	if !isTrue(create, "force") {
		c.lose(text(create, origin),
			"without force it fails where there is a filesystem already, and spec 3 has nothing that does")
		return
	}
	filesystem["wipeFilesystem"] = true
	move(create, filesystem, "options")
}

// filesystemsDown converts storage.filesystems: each is named by its path.
func (c *downConversion) filesystemsDown(storage object) mounts {
	found := mounts{"root": {"root", "/"}}
	seenRoot := false
	var out []object
	for _, fs := range objects(storage, "filesystems") {
		named := object{origin: text(fs, origin)}
		if p, ok := fs["path"].(string); ok {
			name := p
			if path.Clean(p) == "/" {
				name = "root"
			}
			if p == "" {
				c.lose(pathOf(fs, "path"), "spec 2 names a filesystem or leaves the name out: remove it")
			}
			if _, twice := found[name]; twice && name != "root" || seenRoot && name == "root" {
				c.lose(pathOf(fs, "path"), "two filesystems have this path")
			}
			seenRoot = seenRoot || name == "root"
			named["name"] = name
			found[name] = mount{name, path.Clean(p)}
			delete(fs, "path")
		}
		if text(fs, "format") == "" {
			c.lose(pathOf(fs, "format"), "spec 2 has no filesystem without a format")
		}
		named["mount"] = fs
		out = append(out, named)
	}
	setObjects(storage, "filesystems", out)
	return found
}
