package iscsi

import "encoding/binary"

// modePages are the mode pages without their first two bytes, code and length,
// in the order of their codes.
var modePages = []struct {
	code byte
	page func(d *drive) []byte
}{
	{0x01, func(*drive) []byte { return make([]byte, 10) }}, // error recovery
	{0x0a, func(*drive) []byte { // control: a task set for each session
		return []byte{0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	}},
	{0x1a, func(*drive) []byte { return make([]byte, 10) }}, // power condition
	{0x2a, (*drive).capabilities},
}

// capabilities is the page of CD capabilities and mechanical status.
func (d *drive) capabilities() []byte {
	const speed = 50 * 176 // kB/s
	b := make([]byte, 20)
	b[0] = 0x3b // reads CD-R, CD-RW, DVD-ROM, DVD-R and DVD-RAM
	b[2] = 0x70 // mode 2 form 1 and 2, multisession
	b[4] = 0x29 // a tray, which ejects and locks
	if d.locked {
		b[4] |= 0x02
	}
	binary.BigEndian.PutUint16(b[6:], speed)
	binary.BigEndian.PutUint16(b[10:], 2048) // kB of buffer
	binary.BigEndian.PutUint16(b[12:], speed)
	return b
}

// modeSense is MODE SENSE (6) and (10) (SPC-3, sections 6.9 and 6.10). There are no block
// descriptors, as usual for CD drives.
func modeSense(d *drive, cdb, out []byte) result {
	header, allocated := 4, int(cdb[4])
	if cdb[0] == 0x5a {
		header, allocated = 8, int(binary.BigEndian.Uint16(cdb[7:]))
	}
	start := len(out)
	out = append(out, make([]byte, header)...)
	out, bad := d.appendPages(out, cdb)
	switch {
	case bad != senseNone:
		return checkCondition(bad)
	case header == 4:
		out[start] = byte(len(out) - start - 1)
	default:
		binary.BigEndian.PutUint16(out[start:], uint16(len(out)-start-2))
	}
	return good(out, allocated)
}

// appendPages adds the pages that a MODE SENSE asks for.
func (d *drive) appendPages(out, cdb []byte) ([]byte, sense) {
	const all, changeable, saved = 0x3f, 1, 3
	control, code, subpage := cdb[2]>>6, cdb[2]&0x3f, cdb[3]
	if control == saved {
		return nil, senseSaved
	}
	if subpage != 0 && subpage != 0xff {
		return nil, senseField(3)
	}
	bad := senseField(2)
	for _, each := range modePages {
		if code != all && code != each.code {
			continue
		}
		bad = senseNone
		page := each.page(d)
		if control == changeable {
			clear(page)
		}
		out = append(out, each.code, byte(len(page)))
		out = append(out, page...)
	}
	return out, bad
}
