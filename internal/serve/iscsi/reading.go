package iscsi

import "encoding/binary"

func read6(d *drive, cdb, _ []byte) result {
	count := int64(cdb[4])
	if count == 0 {
		count = 256
	}
	return d.read(int64(cdb[1]&0x1f)<<16|int64(binary.BigEndian.Uint16(cdb[2:])), count)
}

func read10(d *drive, cdb, _ []byte) result {
	return d.readProtected(cdb, uint64(binary.BigEndian.Uint32(cdb[2:])), int64(binary.BigEndian.Uint16(cdb[7:])))
}

func read12(d *drive, cdb, _ []byte) result {
	return d.readProtected(cdb, uint64(binary.BigEndian.Uint32(cdb[2:])), int64(binary.BigEndian.Uint32(cdb[6:])))
}

func read16(d *drive, cdb, _ []byte) result {
	return d.readProtected(cdb, binary.BigEndian.Uint64(cdb[2:]), int64(binary.BigEndian.Uint32(cdb[10:])))
}

// readProtected is a read whose command may ask for protection information,
// which the medium has not.
func (d *drive) readProtected(cdb []byte, block uint64, count int64) result {
	if cdb[1]&0xe0 != 0 {
		return checkCondition(senseField(1))
	}
	if block > uint64(d.blocks) {
		return checkCondition(senseRange)
	}
	return d.read(int64(block), count)
}

func (d *drive) read(block, count int64) result {
	if block > d.blocks || count > d.blocks-block {
		return checkCondition(senseRange)
	}
	return result{block: block, count: count}
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
