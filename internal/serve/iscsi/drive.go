package iscsi

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// blockSize is that of a CD-ROM, in bytes.
const blockSize = 2048

// drive is the CD-ROM drive of one session. It belongs to the connection's goroutine.
type drive struct {
	iqn    string
	serial [8]byte // from the IQN
	blocks int64

	ejected bool
	locked  bool
	event   byte // a media event that has not been reported
}

// Media events of GET EVENT STATUS NOTIFICATION.
const (
	eventNone    = 0
	eventNew     = 2
	eventRemoved = 3
)

func newDrive(t *Target) *drive {
	d := &drive{iqn: t.IQN, blocks: (t.Disk.Size() + blockSize - 1) / blockSize}
	sum := sha256.Sum256([]byte(t.IQN))
	copy(d.serial[:], sum[:])
	return d
}

// reset is the power switch: unlocked, with the disc in.
func (d *drive) reset() { d.ejected, d.locked, d.event = false, false, eventNone }

func (d *drive) serialNumber() string { return hex.EncodeToString(d.serial[:]) }

// execute runs a command of 16 bytes. It adds the answer to out, which is empty.
func (d *drive) execute(lun uint64, cdb, out []byte) result {
	op := lookup(cdb)
	switch {
	case lun != 0 && (op == nil || !op.anyUnit):
		return checkCondition(senseUnit)
	case op == nil && serviceActions(cdb[0]):
		return checkCondition(senseField(1))
	case op == nil:
		return checkCondition(senseOpcode)
	case lun != 0:
		return absent(cdb, out)
	case op.medium && d.ejected:
		return checkCondition(senseNoMedium)
	}
	return op.run(d, cdb, out)
}

// absent answers what every logical unit answers, for one that is not there.
func absent(cdb, out []byte) result {
	switch cdb[0] {
	case 0x12:
		if cdb[1]&1 != 0 {
			return checkCondition(senseUnit)
		}
		out = append(out, make([]byte, 36)...)
		out[0], out[2], out[3], out[4] = 0x7f, 0x05, 0x02, 31
		return good(out, int(binary.BigEndian.Uint16(cdb[3:])))
	case 0x03:
		return good(senseUnit.appendFixed(out), int(cdb[4]))
	}
	return reportLUNs(nil, cdb, out)
}

func testUnitReady(*drive, []byte, []byte) result { return result{} }

// requestSense returns sense data of the present state (SPC-3, section 6.27). That of
// earlier commands was sent with them.
func requestSense(d *drive, cdb, out []byte) result {
	s := senseNone
	if d.ejected {
		s = senseNoMedium
	}
	if cdb[1]&1 != 0 {
		return good(s.appendDescriptor(out), int(cdb[4]))
	}
	return good(s.appendFixed(out), int(cdb[4]))
}

func reportLUNs(_ *drive, cdb, out []byte) result {
	allocated := int(binary.BigEndian.Uint32(cdb[6:]))
	if cdb[2] > 2 {
		return checkCondition(senseField(2))
	}
	if allocated < 16 {
		return checkCondition(senseField(6))
	}
	list := [16]byte{3: 8} // one unit: LUN 0
	if cdb[2] == 1 {       // well known units alone: there are none
		return good(append(out, make([]byte, 8)...), allocated)
	}
	return good(append(out, list[:]...), allocated)
}

// startStop ejects and loads. Spinning up and down and power conditions need
// nothing to be done.
func startStop(d *drive, cdb, _ []byte) result {
	const start, loadEject = 0x01, 0x02
	if cdb[4]&0xf0 != 0 || cdb[4]&loadEject == 0 {
		return result{}
	}
	load := cdb[4]&start != 0
	switch {
	case !load && d.locked:
		return checkCondition(senseLocked)
	case load && d.ejected:
		d.event = eventNew
	case !load && !d.ejected:
		d.event = eventRemoved
	}
	d.ejected = !load
	return result{}
}

func preventAllow(d *drive, cdb, _ []byte) result {
	d.locked = cdb[4]&1 != 0
	return result{}
}

// writeProtected answers all that would change the medium.
func writeProtected(*drive, []byte, []byte) result { return checkCondition(senseWriteProtect) }

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
	if cdb[0] != 0x08 && cdb[1]&0xe0 != 0 { // protection information, which the medium has not
		return checkCondition(senseField(1))
	}
	return d.readBlocks(block, count)
}

// readBlocks answers with blocks of the medium.
func (d *drive) readBlocks(block uint64, count int64) result {
	if block > uint64(d.blocks) || count > d.blocks-int64(block) {
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
