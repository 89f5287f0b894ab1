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
	maxExtents     = 4096 // of one file: 16 TB
)

// File flags (ECMA-119, section 9.1.6).
const (
	flagDirectory  = 0x02
	flagAssociated = 0x04
	flagContinues  = 0x80 // the next record is another extent of the same file
)

var errDirectory = errors.New("a damaged directory record")

// record is a directory record of the image.
type record struct {
	off   int64  // its own offset
	data  Extent // the content
	xattr byte   // blocks of extended attributes before the content
	flags byte
	name  []byte
	susp  []byte // the system use area: Rock Ridge
}

// parseRecord parses the directory record that b begins with (ECMA-119, section 9.1).
func parseRecord(b []byte, off int64) (record, error) {
	if len(b) < 34 || int(b[0]) < 34 || int(b[0]) > len(b) {
		return record{}, fmt.Errorf("%w at %d", errDirectory, off)
	}
	b = b[:b[0]]
	end := 33 + int(b[32])
	if end > len(b) {
		return record{}, fmt.Errorf("%w at %d", errDirectory, off)
	}
	if b[26] != 0 || b[27] != 0 {
		return record{}, fmt.Errorf("%w at %d: interleaved files are not read", errDirectory, off)
	}
	start := int64(binary.LittleEndian.Uint32(b[2:])) + int64(b[1])
	return record{
		off:   off,
		data:  Extent{start * sector, int64(binary.LittleEndian.Uint32(b[10:]))},
		xattr: b[1],
		flags: b[25],
		name:  b[33:end],
		susp:  b[min(end+end%2, len(b)):], // the name is padded to an even offset
	}, nil
}

// readRecord reads the directory record at off.
func readRecord(src reader, off int64) (record, error) {
	buf := make([]byte, 256)
	if err := src.read(buf, off); err != nil {
		return record{}, err
	}
	return parseRecord(buf, off)
}

// treeReader reads the directories of a tree, within a budget. It is a fileSystem.
type treeReader struct {
	*tree
	src    reader
	budget int64
	buf    []byte
}

func (t *tree) reader(src reader) *treeReader {
	return &treeReader{tree: t, src: src, budget: maxDirectories, buf: make([]byte, sector)}
}

func (r *treeReader) top() *entry { return &entry{places: []place{{data: r.root}}} }

func (r *treeReader) extents(e *entry) (extents []Extent, err error) {
	for _, p := range e.places {
		extents = appendExtent(extents, p.data)
	}
	return extents, nil
}

// spend takes the length of an area from the budget.
func (r *treeReader) spend(n int64) error {
	if r.budget -= n; r.budget < 0 {
		return fmt.Errorf("the directories of the image have more than %d MB", maxDirectories>>20)
	}
	return nil
}

func (r *treeReader) list(dir *entry, fn func(*entry) error) error {
	var e entry
	at := dir.places[0].data
	for off := at.Off; off < at.end(); off += sector {
		if err := r.spend(sector); err != nil {
			return err
		}
		if err := r.src.read(r.buf, off); err != nil {
			return err
		}
		for pos := 0; pos < sector && r.buf[pos] != 0; pos += int(r.buf[pos]) {
			rec, err := parseRecord(r.buf[pos:], off+int64(pos))
			if err != nil {
				return err
			}
			if len(rec.name) == 1 && rec.name[0] <= 1 || rec.flags&flagAssociated != 0 {
				continue // "." and "..", or the fork of a file
			}
			complete, err := r.add(&e, &rec)
			if err == nil && complete && e.name != "" {
				err = fn(&e)
			}
			if err != nil {
				return err
			}
			if complete {
				e = entry{places: e.places[:0]}
			}
		}
	}
	return nil
}

// add adds a record to an entry and reports whether the entry is complete. The name
// stays empty for a record that the tree does not show.
func (r *treeReader) add(e *entry, rec *record) (complete bool, err error) {
	if len(e.places) == 0 {
		e.plain = r.decode(rec.name)
		e.name = e.plain
		e.dir = rec.flags&flagDirectory != 0
	}
	if len(e.places) == maxExtents {
		return false, fmt.Errorf("%w at %d: a file in more than %d pieces", errDirectory, rec.off, maxExtents)
	}
	if r.rockRidge {
		rr, err := r.readRockRidge(rec)
		if err != nil {
			return false, err
		}
		if rr.hidden {
			*e = entry{places: e.places[:0]}
			return true, nil
		}
		if rr.name != "" {
			e.name = printable(rr.name)
		}
		e.symlink, e.compressed = rr.symlink, rr.compressed
		if rr.child.Off != 0 {
			e.dir, rec.data = true, rr.child
		}
	}
	if strings.Contains(e.name, "/") || e.name == "." || e.name == ".." {
		e.name = ""
	}
	e.places = append(e.places, place{rec.off, rec.xattr, rec.data})
	e.size += rec.data.Len
	return rec.flags&flagContinues == 0, nil
}

// decode returns the name of a record without its version.
func (t *tree) decode(raw []byte) string {
	name := string(raw)
	if t.joliet {
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = binary.BigEndian.Uint16(raw[2*i:])
		}
		name = string(utf16.Decode(units))
	}
	if i := strings.LastIndexByte(name, ';'); i > 0 {
		name = name[:i]
	}
	if !t.joliet {
		name = strings.TrimSuffix(name, ".")
	}
	return printable(name)
}

// maxContinuations is the maximum number of areas of one record.
const maxContinuations = 16

// rockRidge has the attributes that Rock Ridge adds to a record.
type rockRidge struct {
	name       string
	symlink    bool
	compressed bool
	// hidden is true for a directory whose place in the tree is elsewhere.
	hidden bool
	// child is the place to which a directory was moved from here.
	child Extent
}

// findRockRidge looks for the SP entry in the "." record of the root (SUSP 1.12, section 5.3).
func (t *tree) findRockRidge(src reader) error {
	rec, err := readRecord(src, t.root.Off)
	if err != nil {
		return fmt.Errorf("the root directory: %w", err)
	}
	if s := rec.susp; len(s) >= 7 && s[0] == 'S' && s[1] == 'P' && s[2] >= 7 && s[4] == 0xBE && s[5] == 0xEF {
		t.rockRidge, t.skip = true, int(s[6])
	}
	return nil
}

// readRockRidge reads the system use entries of a record (SUSP 1.12, section 5; RRIP 1.12,
// section 4.1), and of the areas that continue it.
func (r *treeReader) readRockRidge(rec *record) (rockRidge, error) {
	var rr rockRidge
	area := rec.susp[min(r.skip, len(rec.susp)):]
	for range maxContinuations {
		next, err := r.readArea(area, &rr)
		if err != nil || next.Len == 0 {
			return rr, err
		}
		if next.Len > sector {
			return rr, fmt.Errorf("%w at %d: a continuation of %d bytes", errDirectory, rec.off, next.Len)
		}
		if err := r.spend(next.Len); err != nil {
			return rr, err
		}
		area = make([]byte, next.Len)
		if err := r.src.read(area, next.Off); err != nil {
			return rr, err
		}
	}
	return rr, nil
}

// readArea reads the entries of one area, and returns the area that continues it; its
// length is 0 if there is none.
func (r *treeReader) readArea(area []byte, rr *rockRidge) (next Extent, err error) {
	for len(area) >= 4 && area[2] >= 4 && int(area[2]) <= len(area) {
		signature, field := string(area[:2]), area[4:area[2]]
		area = area[area[2]:]
		switch signature {
		case "ST":
			return next, nil
		case "NM":
			if len(field) > 0 && field[0]&0x06 == 0 {
				rr.name += string(field[1:])
			}
		case "SL":
			rr.symlink = true
		case "ZF":
			rr.compressed = true
		case "RE":
			rr.hidden = true
		case "CL":
			if len(field) < 4 {
				continue
			}
			// The "." record of the directory there has its size.
			moved, err := readRecord(r.src, int64(binary.LittleEndian.Uint32(field))*sector)
			if err != nil {
				return next, err
			}
			rr.child = moved.data
		case "CE":
			next = continuedAt(field)
		}
	}
	return next, nil
}

// continuedAt returns the area that a CE entry names.
func continuedAt(field []byte) Extent {
	if len(field) < 20 {
		return Extent{}
	}
	le := binary.LittleEndian
	return Extent{int64(le.Uint32(field))*sector + int64(le.Uint32(field[8:])), int64(le.Uint32(field[16:]))}
}
