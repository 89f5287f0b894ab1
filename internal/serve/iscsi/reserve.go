package iscsi

import "encoding/binary"

// A drive belongs to one session, so there is nobody to keep out of it, and
// PERSISTENT RESERVE OUT is no command of it: one machine must never be able to
// keep the others from booting. PERSISTENT RESERVE IN says so.

// reserveKeys answers READ KEYS, READ RESERVATION and READ FULL STATUS: there
// are no registrations and no reservation.
func reserveKeys(_ *drive, cdb, out []byte) result {
	return good(append(out, make([]byte, 8)...), int(binary.BigEndian.Uint16(cdb[7:])))
}

// reserveCapabilities answers that no type of reservation is supported.
func reserveCapabilities(_ *drive, cdb, out []byte) result {
	return good(append(out, 0, 8, 0, 0x80, 0, 0, 0, 0), int(binary.BigEndian.Uint16(cdb[7:])))
}
