package iscsi

import "encoding/binary"

// readCD is READ CD (MMC-4, section 6.19), by block addresses.
func readCD(d *drive, cdb, _ []byte) result {
	count := int64(cdb[6])<<16 | int64(binary.BigEndian.Uint16(cdb[7:]))
	return d.readSectors(cdb, uint64(binary.BigEndian.Uint32(cdb[2:])), count)
}

// readCDMSF is READ CD MSF (MMC-4, section 6.20), from one time on the disc up to another.
func readCDMSF(d *drive, cdb, _ []byte) result {
	first, end := frames(cdb[3:6]), frames(cdb[6:9])
	switch {
	case first < 0:
		return checkCondition(senseField(3))
	case end < first:
		return checkCondition(senseField(6))
	case first < leadIn: // before the first block
		return checkCondition(senseRange)
	}
	return d.readSectors(cdb, uint64(first-leadIn), end-first)
}

// frames returns the number of frames of a time in minutes, seconds and frames, -1 for a
// time that does not exist.
func frames(msf []byte) int64 {
	if msf[1] >= 60 || msf[2] >= 75 {
		return -1
	}
	return (int64(msf[0])*60+int64(msf[1]))*75 + int64(msf[2])
}

// readSectors reads sectors of the data track, which are of mode 1. Of a sector only the
// user data are on the medium: no sync pattern, no headers, no error correction, and no
// subchannels.
func (d *drive) readSectors(cdb []byte, block uint64, count int64) result {
	const anyType, mode1 = 0, 2
	const nothing, userData = 0x00, 0x10
	selection := cdb[9]
	switch sectorType := cdb[1] >> 2 & 7; {
	case sectorType > 5:
		return checkCondition(senseField(1))
	case sectorType != anyType && sectorType != mode1:
		return checkCondition(senseTrackMode)
	case selection != nothing && selection != userData:
		return checkCondition(senseField(9))
	case cdb[10]&7 != 0:
		return checkCondition(senseField(10))
	}
	r := d.readBlocks(block, count)
	if selection == nothing { // the command checks the addresses alone
		r.count = 0
	}
	return r
}
