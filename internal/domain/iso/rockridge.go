package iso

import (
	"encoding/binary"
	"fmt"
	"strings"
)

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
	child extent
}

// findRockRidge looks for the SP entry of SUSP in the "." record of the root.
func (t *tree) findRockRidge(src reader) error {
	buf := make([]byte, 256)
	if err := src.read(buf, t.root.off); err != nil {
		return fmt.Errorf("the root directory: %w", err)
	}
	rec, err := parseRecord(buf, t.root.off)
	if err != nil {
		return err
	}
	if s := rec.susp; len(s) >= 7 && s[0] == 'S' && s[1] == 'P' && s[2] >= 7 && s[4] == 0xBE && s[5] == 0xEF {
		t.rockRidge, t.skip = true, int(s[6])
	}
	return nil
}

// rockRidge reads the system use entries of a record (SUSP 1.12, RRIP 1.12), and of the
// areas that continue it.
func (w *walker) rockRidge(rec *record) (rockRidge, error) {
	r := rockRidgeReader{w: w}
	var area, buf []byte
	if len(rec.susp) > w.tree.skip {
		area = rec.susp[w.tree.skip:]
	}
	for range maxContinuations {
		if err := r.readArea(area); err != nil {
			return r.rr, err
		}
		next := r.next
		if next.size == 0 {
			break
		}
		if next.size > sector {
			return r.rr, fmt.Errorf("%w at %d: a continuation of %d bytes", errDirectory, rec.off, next.size)
		}
		if w.budget -= next.size; w.budget < 0 {
			return r.rr, fmt.Errorf("the directories of the image have more than %d MB", maxDirectories>>20)
		}
		if buf == nil {
			buf = make([]byte, sector)
		}
		area = buf[:next.size]
		if err := w.src.read(area, next.off); err != nil {
			return r.rr, err
		}
	}
	r.rr.name = printable(r.name.String())
	return r.rr, nil
}

// rockRidgeReader collects the system use entries of a record.
type rockRidgeReader struct {
	w    *walker
	rr   rockRidge
	name strings.Builder
	// next is the area that continues the one that was read last; its size is 0 if
	// there is none.
	next extent
}

// readArea reads the entries of one area.
func (r *rockRidgeReader) readArea(area []byte) error {
	r.next = extent{}
	for len(area) >= 4 {
		n := int(area[2])
		if n < 4 || n > len(area) || string(area[:2]) == "ST" {
			return nil
		}
		if err := r.readEntry(string(area[:2]), area[4:n]); err != nil {
			return err
		}
		area = area[n:]
	}
	return nil
}

// readEntry reads one entry by its signature.
func (r *rockRidgeReader) readEntry(signature string, field []byte) error {
	switch signature {
	case "NM":
		if len(field) > 0 && field[0]&0x06 == 0 {
			r.name.Write(field[1:])
		}
	case "SL":
		r.rr.symlink = true
	case "ZF":
		r.rr.compressed = true
	case "RE":
		r.rr.hidden = true
	case "CL":
		if len(field) < 4 {
			return nil
		}
		child, err := r.w.self(int64(binary.LittleEndian.Uint32(field)) * sector)
		if err != nil {
			return err
		}
		r.rr.child = child
	case "CE":
		if len(field) >= 20 {
			r.next = extent{
				int64(binary.LittleEndian.Uint32(field))*sector + int64(binary.LittleEndian.Uint32(field[8:])),
				int64(binary.LittleEndian.Uint32(field[16:])),
			}
		}
	}
	return nil
}

// self reads the "." record of the directory at off, which has its size.
func (w *walker) self(off int64) (extent, error) {
	buf := make([]byte, 256)
	if err := w.src.read(buf, off); err != nil {
		return extent{}, err
	}
	rec, err := parseRecord(buf, off)
	if err != nil {
		return extent{}, err
	}
	return rec.data(), nil
}
