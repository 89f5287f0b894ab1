package iso

import (
	"encoding/binary"
	"fmt"
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
