package iso

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	// maxDirectories bounds the bytes of directories that one walk reads. The
	// largest DVDs have some 3 MB of them.
	maxDirectories = 64 << 20
	maxDepth       = 32
	maxExtents     = 4096 // of one file: 16 TB
)

const (
	flagDirectory  = 0x02
	flagAssociated = 0x04
	flagContinues  = 0x80 // the next record is another extent of the same file
)

var errDirectory = errors.New("a damaged directory record")

// record is a directory record as it stands on the image.
type record struct {
	off   int64 // where it stands
	block uint32
	size  uint32
	xattr byte // blocks of extended attributes before the content
	flags byte
	name  []byte
	susp  []byte // the system use area: Rock Ridge
}

// data is where the content stands.
func (r *record) data() extent {
	return extent{(int64(r.block) + int64(r.xattr)) * sector, int64(r.size)}
}

// parseRecord reads the record that b begins with.
func parseRecord(b []byte, off int64) (record, error) {
	if len(b) < 34 || int(b[0]) < 34 || int(b[0]) > len(b) {
		return record{}, fmt.Errorf("%w at %d", errDirectory, off)
	}
	b = b[:b[0]]
	r := record{
		off:   off,
		block: binary.LittleEndian.Uint32(b[2:]),
		size:  binary.LittleEndian.Uint32(b[10:]),
		xattr: b[1],
		flags: b[25],
	}
	end := 33 + int(b[32])
	if end > len(b) {
		return record{}, fmt.Errorf("%w at %d", errDirectory, off)
	}
	r.name = b[33:end]
	if end%2 == 1 { // padded to an even length
		end++
	}
	if end < len(b) {
		r.susp = b[end:]
	}
	if b[26] != 0 || b[27] != 0 {
		return record{}, fmt.Errorf("%w at %d: interleaved files are not read", errDirectory, off)
	}
	return r, nil
}

// entry is a file or a directory under the name that its tree gives it.
type entry struct {
	path string
	name string
	// plain is the name without Rock Ridge, where that differs.
	plain   string
	dir     bool
	symlink bool
	// compressed content (zisofs) is not what a boot loader reads.
	compressed bool
	// places holds the record of each extent; a directory has one.
	places []place
	size   int64
}

// place is a record and the range that it points to.
type place struct {
	record int64
	xattr  byte
	data   extent
}

// walker reads directories within a budget.
type walker struct {
	src    reader
	tree   *tree
	budget int64
	seen   map[int64]struct{}
	buf    []byte
}

func newWalker(src reader, t *tree) *walker {
	return &walker{src: src, tree: t, budget: maxDirectories, seen: map[int64]struct{}{}, buf: make([]byte, sector)}
}

// walk calls fn for every file and directory below the root. The entry is valid
// until fn returns.
func (w *walker) walk(fn func(*entry) error) error {
	return w.descend("", w.tree.root, 0, fn)
}

func (w *walker) descend(path string, at extent, depth int, fn func(*entry) error) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: directories are nested deeper than %d", path, maxDepth)
	}
	if _, again := w.seen[at.off]; again {
		return fmt.Errorf("%s/: the directory holds itself", path)
	}
	w.seen[at.off] = struct{}{}
	type child struct {
		path string
		at   extent
	}
	var children []child
	err := w.list(at, func(e *entry) error {
		e.path = path + "/" + e.name
		if e.dir {
			children = append(children, child{e.path, e.places[0].data})
		}
		return fn(e)
	})
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := w.descend(c.path, c.at, depth+1, fn); err != nil {
			return err
		}
	}
	return nil
}

// list calls fn for what one directory holds, with no path set.
func (w *walker) list(at extent, fn func(*entry) error) error {
	var e entry
	for done := int64(0); done < at.size; done += sector {
		if w.budget -= sector; w.budget < 0 {
			return fmt.Errorf("the directories of the image have more than %d MB", maxDirectories>>20)
		}
		if err := w.src.read(w.buf, at.off+done); err != nil {
			return err
		}
		for pos := 0; pos < sector && w.buf[pos] != 0; {
			rec, err := parseRecord(w.buf[pos:], at.off+done+int64(pos))
			if err != nil {
				return err
			}
			pos += int(w.buf[pos])
			if len(rec.name) == 1 && rec.name[0] <= 1 || rec.flags&flagAssociated != 0 {
				continue // "." and "..", or the fork of a file
			}
			complete, err := w.add(&e, &rec)
			if err != nil {
				return err
			}
			if !complete {
				continue
			}
			if e.name != "" {
				if err := fn(&e); err != nil {
					return err
				}
			}
			e = entry{places: e.places[:0]}
		}
	}
	return nil
}

// add puts a record to e and reports whether the file is complete. A record that
// is to be passed over leaves the name empty.
func (w *walker) add(e *entry, rec *record) (bool, error) {
	if len(e.places) == 0 {
		e.plain = w.tree.decode(rec.name)
		e.name = e.plain
		e.dir = rec.flags&flagDirectory != 0
	}
	if len(e.places) == maxExtents {
		return false, fmt.Errorf("%w at %d: a file in more than %d pieces", errDirectory, rec.off, maxExtents)
	}
	here := place{rec.off, rec.xattr, rec.data()}
	if w.tree.rockRidge {
		rr, err := w.rockRidge(rec)
		if err != nil {
			return false, err
		}
		if rr.hidden {
			*e = entry{places: e.places[:0]}
			return true, nil
		}
		if rr.name != "" {
			e.name = rr.name
		}
		e.symlink, e.compressed = rr.symlink, rr.compressed
		if rr.child.off != 0 {
			e.dir, here.data = true, rr.child
		}
	}
	if strings.Contains(e.name, "/") || e.name == "." || e.name == ".." {
		e.name = ""
	}
	e.places = append(e.places, here)
	e.size += here.data.size
	return rec.flags&flagContinues == 0, nil
}

// decode returns the name of a record without its version.
func (t *tree) decode(raw []byte) string {
	var name string
	if t.joliet {
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = binary.BigEndian.Uint16(raw[2*i:])
		}
		name = string(utf16.Decode(units))
	} else {
		name = string(raw)
	}
	if i := strings.LastIndexByte(name, ';'); i > 0 {
		name = name[:i]
	}
	if !t.joliet {
		name = strings.TrimSuffix(name, ".")
	}
	return printable(name)
}
