package iscsi

import "encoding/binary"

// A drive belongs to one session, so there is no other initiator to reserve it from, and
// PERSISTENT RESERVE OUT is not supported: one machine must never be able to
// keep the others from booting. PERSISTENT RESERVE IN says so.

// reserveIn is PERSISTENT RESERVE IN (SPC-3, section 6.11): there are no registrations and
// no reservation, and REPORT CAPABILITIES has no type of reservation.
func reserveIn(_ *drive, cdb, out []byte) result {
	const reportCapabilities = 2
	answer := make([]byte, 8)
	if cdb[1]&0x1f == reportCapabilities {
		answer[1], answer[3] = 8, 0x80
	}
	return good(append(out, answer...), int(binary.BigEndian.Uint16(cdb[7:])))
}
