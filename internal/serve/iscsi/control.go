package iscsi

import (
	"encoding/binary"
)

// Task management functions and responses, RFC 7143 sections 11.5 and 11.6.
const (
	taskAbort       = 1
	taskAbortSet    = 2
	taskClearSet    = 4
	taskResetUnit   = 5
	taskResetWarm   = 6
	taskResetCold   = 7
	taskReassign    = 8
	taskComplete    = 0
	taskUnknown     = 1
	taskNoUnit      = 2
	taskNoReassign  = 4
	taskUnsupported = 5
)

// asyncDropAll says that the target drops all connections of the session.
const asyncDropAll = 3

// reconnectAfter is when an initiator that was sent away should come back, in seconds.
const reconnectAfter = 2

// taskManagement answers at once: each command is answered before the next
// request is read, so there is never one to abort.
func (c *conn) taskManagement(r request) error {
	h := newHeader(opTaskDone, flagFinal, r.tag())
	function := r.flags() & 0x7f
	if c.discovery {
		function = 0
	}
	switch function {
	case taskAbort:
		h[2] = taskUnknown
	case taskAbortSet, taskClearSet, taskResetUnit:
		if r.lun() != 0 {
			h[2] = taskNoUnit
		} else if function == taskResetUnit {
			c.drive.reset()
		}
	case taskResetWarm, taskResetCold:
		c.drive.reset()
	case taskReassign:
		h[2] = taskNoReassign
	default:
		h[2] = taskUnsupported
	}
	if err := c.answer(&h, nil); err != nil || function != taskResetCold {
		return err
	}
	return errLogout // a cold reset ends the session that it comes in
}

// logout answers and ends the connection (RFC 7143, sections 11.14 and 11.15).
func (c *conn) logout(r request) error {
	const (
		closeSession, closeConnection = 0, 1
		noConnection, noRecovery      = 1, 2
	)
	h := newHeader(opLogoutDone, flagFinal, r.tag())
	switch reason := r.flags() & 0x7f; {
	case reason == closeSession:
	case reason == closeConnection && binary.BigEndian.Uint16(r.head[20:]) == c.cid:
	case reason == closeConnection:
		h[2] = noConnection
	default:
		h[2] = noRecovery
	}
	h.put(40, reconnectAfter<<16) // Time2Wait, Time2Retain
	if err := c.answer(&h, nil); err != nil || h[2] != 0 {
		return err
	}
	return errLogout
}

// nop echoes a ping of the initiator.
func (c *conn) nop(r request) error {
	h := newHeader(opNopIn, flagFinal, r.tag())
	copy(h[8:16], r.head[8:16])
	h.put(20, noTag)
	return c.answer(&h, r.data[:min(len(r.data), c.params.maxSend)])
}

// ping sends a NOP-In that the initiator has to answer (RFC 7143, section 11.19). It does
// not take a status number.
func (c *conn) ping() error {
	h := newHeader(opNopIn, flagFinal, noTag)
	h.put(20, 1) // the target's tag, which the answer repeats
	h.put(24, c.statSN)
	c.window(&h)
	return c.out.pdu(&h, nil, c.params.digests)
}

// reject refuses a PDU, and returns its header to the initiator (RFC 7143, section 11.17).
func (c *conn) reject(r request, reason byte) error {
	h := newHeader(opReject, flagFinal, noTag)
	h[2] = reason
	return c.answer(&h, r.head)
}

// farewell tells the initiator that the target stops and when to try again (RFC 7143,
// section 11.9).
func (c *conn) farewell() error {
	h := newHeader(opAsync, flagFinal, noTag)
	h[36] = asyncDropAll
	binary.BigEndian.PutUint16(h[40:], reconnectAfter)
	if err := c.answer(&h, nil); err != nil {
		return err
	}
	return ErrShutdown
}

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
