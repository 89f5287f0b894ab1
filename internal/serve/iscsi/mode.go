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

func modeSense6(d *drive, cdb, out []byte) result {
	start := len(out)
	out = append(out, 0, 0, 0, 0)
	out, bad := d.appendPages(out, cdb)
	if bad != nil {
		return *bad
	}
	out[start] = byte(len(out) - start - 1)
	return good(out, int(cdb[4]))
}

func modeSense10(d *drive, cdb, out []byte) result {
	start := len(out)
	out = append(out, 0, 0, 0, 0, 0, 0, 0, 0)
	out, bad := d.appendPages(out, cdb)
	if bad != nil {
		return *bad
	}
	binary.BigEndian.PutUint16(out[start:], uint16(len(out)-start-2))
	return good(out, int(binary.BigEndian.Uint16(cdb[7:])))
}

// appendPages adds the pages that a MODE SENSE asks for. There are no block
// descriptors, as is the way of CD drives.
func (d *drive) appendPages(out, cdb []byte) ([]byte, *result) {
	const all, changeable, saved = 0x3f, 1, 3
	control, code, subpage := cdb[2]>>6, cdb[2]&0x3f, cdb[3]
	refuse := func(s sense) ([]byte, *result) {
		bad := checkCondition(s)
		return nil, &bad
	}
	if control == saved {
		return refuse(senseSaved)
	}
	if subpage != 0 && subpage != 0xff {
		return refuse(senseField(3))
	}
	found := false
	for _, each := range modePages {
		if code != all && code != each.code {
			continue
		}
		found = true
		page := each.page(d)
		if control == changeable {
			clear(page)
		}
		out = append(out, each.code, byte(len(page)))
		out = append(out, page...)
	}
	if !found {
		return refuse(senseField(2))
	}
	return out, nil
}
