package iscsi

import "encoding/binary"

// read is READ (6), (10), (12) and (16) (SBC-3).
func read(d *drive, cdb, _ []byte) result {
	var block uint64
	var count int64
	switch cdb[0] {
	case 0x08:
		block, count = uint64(cdb[1]&0x1f)<<16|uint64(binary.BigEndian.Uint16(cdb[2:])), int64(cdb[4])
		if count == 0 {
			count = 256
		}
	case 0x28:
		block, count = uint64(binary.BigEndian.Uint32(cdb[2:])), int64(binary.BigEndian.Uint16(cdb[7:]))
	case 0xa8:
		block, count = uint64(binary.BigEndian.Uint32(cdb[2:])), int64(binary.BigEndian.Uint32(cdb[6:]))
	case 0x88:
		block, count = binary.BigEndian.Uint64(cdb[2:]), int64(binary.BigEndian.Uint32(cdb[10:]))
	}
	switch {
	case cdb[0] != 0x08 && cdb[1]&0xe0 != 0: // protection information, which the medium has not
		return checkCondition(senseField(1))
	case block > uint64(d.blocks), count > d.blocks-int64(block):
		return checkCondition(senseRange)
	}
	return result{block: int64(block), count: count}
}

func readCapacity10(d *drive, cdb, out []byte) result {
	if cdb[8]&1 == 0 && binary.BigEndian.Uint32(cdb[2:]) != 0 {
		return checkCondition(senseField(2))
	}
	out = binary.BigEndian.AppendUint32(out, uint32(min(max(d.blocks-1, 0), 1<<32-1)))
	return good(binary.BigEndian.AppendUint32(out, blockSize), 8)
}

func readCapacity16(d *drive, cdb, out []byte) result {
	out = binary.BigEndian.AppendUint64(out, uint64(max(d.blocks-1, 0)))
	out = binary.BigEndian.AppendUint32(out, blockSize)
	out = append(out, make([]byte, 20)...)
	return good(out, int(binary.BigEndian.Uint32(cdb[10:])))
}
