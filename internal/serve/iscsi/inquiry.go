package iscsi

import (
	"encoding/binary"
)

const (
	vendorID  = "GLOWPLUG"         // 8 characters
	productID = "VIRTUAL CD-ROM  " // 16
	revision  = "1   "             // 4
	// deviceType is a CD or DVD drive.
	deviceType = 0x05
	// optimalBlocks is the length of a read that suits best, in blocks.
	optimalBlocks = defaultBurst / blockSize
)

func inquiry(d *drive, cdb, out []byte) result {
	allocated := int(binary.BigEndian.Uint16(cdb[3:]))
	vital := cdb[1]&1 != 0
	if !vital {
		if cdb[2] != 0 {
			return checkCondition(senseField(2))
		}
		return good(appendInquiry(out), allocated)
	}
	page := vitalPage(d, cdb[2])
	if page == nil {
		return checkCondition(senseField(2))
	}
	out = append(out, deviceType, cdb[2])
	out = binary.BigEndian.AppendUint16(out, uint16(len(page)))
	return good(append(out, page...), allocated)
}

// appendInquiry adds standard inquiry data.
func appendInquiry(out []byte) []byte {
	const size = 96
	var b [size]byte
	b[0] = deviceType
	b[1] = 0x80 // removable
	b[2] = 0x05 // SPC-3
	b[3] = 0x02 // the format of this data
	b[4] = size - 5
	b[7] = 0x02 // takes many commands at once
	copy(b[8:], vendorID+productID+revision)
	for i, standard := range []uint16{0x0960, 0x0300, 0x03a0} { // iSCSI, SPC-3, MMC-4
		binary.BigEndian.PutUint16(b[58+2*i:], standard)
	}
	return append(out, b[:]...)
}

// vitalPage returns a page of vital product data, or nil.
func vitalPage(d *drive, code byte) []byte {
	switch code {
	case 0x00:
		return []byte{0x00, 0x80, 0x83, 0xb0}
	case 0x80:
		return []byte(d.serialNumber())
	case 0x83:
		return d.identification()
	case 0xb0: // block limits: none, but what suits best
		b := make([]byte, 60)
		binary.BigEndian.PutUint32(b[8:], optimalBlocks)
		return b
	}
	return nil
}

// identification is the device identification page (SPC-3, section 7.6.3).
func (d *drive) identification() []byte {
	const (
		binaryForm, asciiForm, utf8Form = 1, 2, 3
		ofUnit, ofPort, ofDevice        = 0x00, 0x10, 0x20
		vendorType, naaType, portType   = 1, 3, 4
		nameType                        = 8
		ofISCSI, named                  = 5 << 4, 0x80 // the protocol, and that it is valid
	)
	var page []byte
	add := func(form, kind byte, value []byte) {
		page = append(page, form, kind, 0, byte(len(value)))
		page = append(page, value...)
	}
	naa := binary.BigEndian.Uint64(d.serial[:])&^(0xf<<60) | 3<<60 // locally assigned
	add(binaryForm, ofUnit|naaType, binary.BigEndian.AppendUint64(nil, naa))
	add(asciiForm, ofUnit|vendorType, []byte(vendorID+d.serialNumber()))
	add(ofISCSI|binaryForm, named|ofPort|portType, []byte{0, 0, 0, 1})
	add(ofISCSI|utf8Form, named|ofPort|nameType, scsiName(d.iqn+",t,0x0001"))
	add(ofISCSI|utf8Form, named|ofDevice|nameType, scsiName(d.iqn))
	return page
}

// scsiName ends a name with zeros, to a multiple of four bytes.
func scsiName(s string) []byte {
	return append([]byte(s), make([]byte, 4-len(s)%4)...)
}

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
