package ignition

import (
	"path"
	"strings"
)

// The default modes, by PerformFetch and MkdirForFile of internal/exec/util/file.go. Spec 2
// (Ignition 0.6 to 0.35) gives a new file mode 0, spec 3 (2.0 to 2.26) 0644. Both keep the
// mode of an existing file that is appended to. So a file that need not be there, and has no
// mode, has no equivalent: spec 2 cannot say "0644 if it is new".
const (
	rootMode      = 0o755 // of a directory that is made for what lies in it
	fileMode      = 0o644 // of a new file in spec 3
	modeless      = "without a mode a new file gets mode 0 in spec 2, and 0644 in spec 3: set the mode"
	secondWritten = "it is declared twice, which spec 3 does not allow"
)

// nodesUp converts files, directories and links: each gets the path that it has
// under the root, and the defaults of spec 2 written out.
func (c *upConversion) nodesUp(storage object, m mounts) {
	for _, kind := range []string{"directories", "links"} {
		seen := map[string]bool{}
		for _, node := range objects(storage, kind) {
			name := text(node, "filesystem")
			full := c.placeUp(node, m)
			if full != "" && seen[full] {
				c.lose(pathOf(node, "path"), secondWritten)
			}
			seen[full] = true
			if kind == "links" {
				c.targetUp(node, m[name])
				continue
			}
			fill(node, "mode", number(0))
			fillOwner(node, "user")
			fillOwner(node, "group")
		}
	}
	c.filesUp(storage, m)
	c.parents(objects(storage, "directories"), m)
}

// fillOwner says that a node belongs to root, which an existing directory does after
// spec 2 and not after spec 3, see directoriesDown.
func fillOwner(node object, key string) {
	if !hasOwner(node, key) {
		ensure(node, key)["id"] = number(0)
	}
}

func hasOwner(node object, key string) bool {
	owner := sub(node, key)
	return owner["id"] != nil || text(owner, "name") != ""
}

// placeUp sets the path of a node under the root, and returns it; empty where it has none.
func (c *upConversion) placeUp(node object, m mounts) string {
	name := text(node, "filesystem")
	where, ok := m[name]
	switch {
	case !ok:
		c.lose(pathOf(node, "filesystem"),
			"spec 3 writes by path, and the config does not say where this filesystem is mounted")
		return ""
	case where.path == "": // refused at the filesystem
		return ""
	}
	full := path.Join(where.path, text(node, "path"))
	if under := m.covering(full); under.path != where.path {
		c.lose(pathOf(node, "path"), "spec 3 writes it to the filesystem that is mounted at %s", under.path)
	}
	delete(node, "filesystem")
	node["path"] = full
	return full
}

// targetUp sets the path of a hard link's target under the root.
func (c *upConversion) targetUp(link object, where mount) {
	if isTrue(link, "hard") && where.path != "" && where.path != "/" {
		link["target"] = path.Join(where.path, text(link, "target"))
	}
}

// filesUp converts files; those that are appended to one before them join it.
func (c *upConversion) filesUp(storage object, m mounts) {
	byPath := map[string]object{}
	var out []object
	for _, file := range objects(storage, "files") {
		full := c.placeUp(file, m)
		earlier := byPath[full]
		appends := isTrue(file, "append")
		delete(file, "append")
		switch {
		case full == "":
			continue
		case appends && earlier != nil:
			c.join(earlier, file)
			continue
		case earlier != nil:
			c.lose(pathOf(file, "path"), secondWritten)
		case appends:
			c.appendUp(file)
		default:
			fill(file, "overwrite", true)
			if file["overwrite"] == false {
				delete(file, "overwrite") // the default of spec 3
			}
			fill(file, "mode", number(0))
			fill(ensure(file, "contents"), "source", "")
		}
		byPath[full] = file
		out = append(out, file)
	}
	setObjects(storage, "files", out)
}

// appendUp converts a file that is appended to one which the config does not write.
func (c *upConversion) appendUp(file object) {
	if _, ok := file["mode"]; !ok {
		c.lose(pathOf(file, "mode"), modeless)
	}
	c.onlyNew(file)
	contents := sub(file, "contents")
	delete(file, "contents")
	switch {
	case text(contents, "source") != "":
		setObjects(file, "append", []object{contents})
	case len(sortedKeys(contents)) > 1 || len(sortedKeys(contents)) == 1 && contents["source"] == nil:
		c.lose(text(contents, origin), "it has no source")
	}
}

// onlyNew refuses to append to new files alone.
func (c *upConversion) onlyNew(file object) {
	if file["overwrite"] == false {
		c.lose(pathOf(file, "overwrite"), "beside append it fails where the file is there, and spec 3 has nothing that does")
	}
}

// join appends a file to one that is written before it.
func (c *upConversion) join(file, more object) {
	for _, key := range []string{"mode", "user", "group"} {
		if value, ok := more[key]; ok && !equalValues(value, file[key]) {
			c.lose(pathOf(more, key), "it changes what an earlier entry of the same file says; spec 3 has one entry for both")
		}
	}
	c.onlyNew(more)
	contents := sub(more, "contents")
	if text(contents, "source") == "" {
		c.lose(text(more, origin), "it appends nothing: remove it")
		return
	}
	setObjects(file, "append", append(objects(file, "append"), contents))
}

// nodesDown converts files, directories and links: each gets the filesystem that
// its path lies in, and the defaults of spec 3 written out. alone is true if no other
// config is merged with this one.
func (c *downConversion) nodesDown(storage object, m mounts, alone bool) {
	c.directoriesDown(storage, m, alone)
	for _, node := range objects(storage, "links") {
		where := c.placeDown(node, m, false)
		if isTrue(node, "hard") {
			c.targetDown(node, where, m)
		}
	}
	var out []object
	for _, file := range objects(storage, "files") {
		c.placeDown(file, m, false)
		out = append(out, c.fileDown(file)...)
	}
	setObjects(storage, "files", out)
}

// placeDown sets the filesystem of a node, and its path there.
func (c *downConversion) placeDown(node object, m mounts, itself bool) mount {
	full := text(node, "path")
	where := m.covering(path.Clean(full))
	node["filesystem"] = where.name
	if where.path != "/" {
		inside := strings.TrimPrefix(path.Clean(full), where.path)
		if inside == "" {
			inside = "/"
			if !itself {
				c.lose(pathOf(node, "path"), "it is where a filesystem is mounted")
			}
		}
		node["path"] = inside
	}
	return where
}

// targetDown sets the path of a hard link's target in the filesystem of both.
func (c *downConversion) targetDown(link object, where mount, m mounts) {
	target := text(link, "target")
	if !path.IsAbs(target) {
		target = path.Join("/", target)
	}
	if of := m.covering(path.Clean(target)); of.path != where.path {
		c.lose(pathOf(link, "target"), "a hard link and its target lie in one filesystem in spec 2")
		return
	}
	if where.path != "/" {
		link["target"] = path.Join("/", strings.TrimPrefix(path.Clean(target), where.path))
	}
}

// fileDown returns the entries of a file in spec 2: one that writes it, and one for each
// content that is appended. A file without contents appends nothing: it is created where
// it is missing, and else left as it is.
func (c *downConversion) fileDown(file object) []object {
	contents := sub(file, "contents")
	_, written := contents["source"]
	appended := objects(file, "append")
	delete(file, "append")
	for _, content := range appended {
		if text(content, "source") == "" {
			c.lose(text(content, origin), "it appends nothing: remove it")
		}
	}
	entry := func(content object, first bool) object {
		e := object{origin: text(file, origin), "append": true, "filesystem": file["filesystem"], "path": file["path"]}
		if content != nil {
			e["contents"] = content
		}
		if first {
			for _, key := range []string{"mode", "user", "group"} {
				if value, ok := file[key]; ok {
					e[key] = value
				}
			}
		}
		return e
	}
	var out []object
	switch {
	case written:
		fill(file, "overwrite", false)
		fill(file, "mode", number(fileMode))
		out = append(out, file)
	default:
		for _, key := range sortedKeys(contents) {
			c.lose(pathOf(contents, key), "it says nothing without a source: remove it")
		}
		if _, ok := file["mode"]; !ok {
			c.lose(pathOf(file, "mode"), modeless)
		}
		if len(appended) == 0 {
			return []object{entry(nil, true)}
		}
		out, appended = append(out, entry(appended[0], true)), appended[1:]
	}
	for _, content := range appended {
		out = append(out, entry(content, false))
	}
	return out
}
