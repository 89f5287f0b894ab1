package iscsi

import "encoding/binary"

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
