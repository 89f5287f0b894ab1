package iso

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of directories.
const maxDepth = 32

// fileSystem is a directory tree of the volume, or a FAT file system in a boot image.
type fileSystem interface {
	// top returns the root directory.
	top() *entry
	// list calls fn for each entry of a directory, with no path set. The entry is valid
	// until fn returns.
	list(dir *entry, fn func(*entry) error) error
	// extents returns the ranges of a file's content.
	extents(e *entry) ([]Extent, error)
}

// entry is a file or a directory of a file system.
type entry struct {
	path string
	name string
	// plain is the name without Rock Ridge.
	plain   string
	dir     bool
	symlink bool
	// compressed is true for zisofs, which boot loaders do not read.
	compressed bool
	size       int64
	// places has the record of each extent; a directory and a file of a FAT file
	// system have one.
	places []place
	// cluster is the first one of a file of a FAT file system, 0: none.
	cluster uint32
}

// place is a directory record and the range that it points to.
type place struct {
	record int64
	xattr  byte
	data   Extent
}

// clone returns a copy that stays valid.
func (e *entry) clone() *entry {
	kept := *e
	kept.places = slices.Clone(e.places)
	return &kept
}

// walk calls fn for every file and directory. The entry is valid until fn returns.
func walk(fs fileSystem, fn func(*entry) error) error {
	seen := map[int64]bool{}
	var descend func(dir *entry, depth int) error
	descend = func(dir *entry, depth int) error {
		if depth > maxDepth {
			return fmt.Errorf("%s: directories are nested deeper than %d", dir.path, maxDepth)
		}
		at := dir.places[0].data.Off
		if seen[at] {
			return fmt.Errorf("%s/: the directory holds itself", dir.path)
		}
		seen[at] = true
		var children []*entry
		err := fs.list(dir, func(e *entry) error {
			e.path = dir.path + "/" + e.name
			if e.dir && e.places[0].data.Off != 0 {
				children = append(children, e.clone())
			}
			return fn(e)
		})
		if err != nil {
			return err
		}
		for _, child := range children {
			if err := descend(child, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return descend(fs.top(), 0)
}

// find returns the regular file with a path. Upper and lower case are distinguished only
// where a directory has both.
func find(fs fileSystem, name string) (*entry, error) {
	at := fs.top()
	parts := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	for i, part := range parts {
		var found *entry
		err := fs.list(at, func(e *entry) error {
			exact := e.name == part
			if found != nil && (found.name == part || !exact) {
				return nil
			}
			if exact || strings.EqualFold(e.name, part) || strings.EqualFold(e.plain, part) {
				found = e.clone()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		last := i == len(parts)-1
		if found == nil || found.dir == last || last && found.symlink {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
		}
		found.path = at.path + "/" + found.name
		at = found
	}
	return at, nil
}
