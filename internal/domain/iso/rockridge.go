package iso

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// maxContinuations bounds the areas that one record spreads over.
const maxContinuations = 16

// rockRidge is what Rock Ridge adds to a record.
type rockRidge struct {
	name       string
	symlink    bool
	compressed bool
	// hidden is a directory that stands here for another place in the tree.
	hidden bool
	// child is where a directory was moved to from here.
	child extent
}

// findRockRidge looks at the root's own record for the sign of system use
// entries.
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

// rockRidge reads the system use entries of a record.
func (w *walker) rockRidge(rec *record) (rockRidge, error) {
	var (
		rr   rockRidge
		name strings.Builder
		area []byte
		buf  []byte
	)
	if len(rec.susp) > w.tree.skip {
		area = rec.susp[w.tree.skip:]
	}
	for range maxContinuations {
		var next extent
		for len(area) >= 4 {
			n := int(area[2])
			if n < 4 || n > len(area) {
				break
			}
			field := area[4:n]
			switch string(area[:2]) {
			case "NM":
				if len(field) > 0 && field[0]&0x06 == 0 {
					name.Write(field[1:])
				}
			case "SL":
				rr.symlink = true
			case "ZF":
				rr.compressed = true
			case "RE":
				rr.hidden = true
			case "CL":
				if len(field) >= 4 {
					at := int64(binary.LittleEndian.Uint32(field)) * sector
					child, err := w.self(at)
					if err != nil {
						return rr, err
					}
					rr.child = child
				}
			case "CE":
				if len(field) >= 20 {
					next = extent{
						int64(binary.LittleEndian.Uint32(field))*sector + int64(binary.LittleEndian.Uint32(field[8:])),
						int64(binary.LittleEndian.Uint32(field[16:])),
					}
				}
			case "ST":
				area = nil
				continue
			}
			area = area[n:]
		}
		if next.size == 0 {
			break
		}
		if next.size > sector {
			return rr, fmt.Errorf("%w at %d: a continuation of %d bytes", errDirectory, rec.off, next.size)
		}
		if w.budget -= next.size; w.budget < 0 {
			return rr, fmt.Errorf("the directories of the image have more than %d MB", maxDirectories>>20)
		}
		if buf == nil {
			buf = make([]byte, sector)
		}
		area = buf[:next.size]
		if err := w.src.read(area, next.off); err != nil {
			return rr, err
		}
	}
	rr.name = printable(name.String())
	return rr, nil
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
