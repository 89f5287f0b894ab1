package iscsi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"glowplug/internal/domain/iso"
)

// zeros fills the last block of an image.
var zeros [blockSize]byte

// scsi is a connection in its answers to SCSI commands. As a value it costs nothing.
type scsi struct{ *conn }

// command answers a SCSI command (RFC 7143, section 11.3). It ignores immediate data: the
// drive accepts none.
func (c scsi) command(r request) error {
	if c.discovery {
		return c.reject(r, rejectProtocol)
	}
	expected := int64(r.word(20))
	if r.flags()&0x40 == 0 { // not a read: there is room for no data
		expected = 0
	}
	if c.scratch == nil {
		c.scratch = make([]byte, 0, 1024)
	}
	result := c.drive.execute(r.lun(), r.cdb(), c.scratch[:0])
	if result.status != statusGood {
		return c.status(r, result, 0, residual{})
	}
	reading := reading{request: r}
	if result.count > 0 {
		off, n := result.block*blockSize, result.count*blockSize
		reading.size, reading.rest = compare(n, expected)
		if c.server.options.Hooks.Read != nil {
			c.server.options.Hooks.Read(c.session, off, n)
		}
		c.session.read.Add(reading.size)
		reading.from = c.extent(off, reading.size)
		reading.disk = c.target.Disk
	} else {
		c.scratch = result.data[:0]
		reading.size, reading.rest = compare(int64(len(result.data)), expected)
		c.segments = append(c.segments[:0], iso.Segment{Data: result.data, Len: int64(len(result.data))})
		reading.from = cursor{segments: c.segments}
	}
	if reading.size == 0 {
		return c.status(r, result, 0, reading.rest)
	}
	err := c.sendData(&reading)
	if errors.Is(err, errMedium) {
		rest := residual{residualUnder, uint32(expected - reading.sent)}
		return c.status(r, checkCondition(c.failure(err)), reading.dataSN, rest)
	}
	if err != nil {
		return fmt.Errorf("sending data: %w", err)
	}
	return nil
}

// failure is the sense data of a read that failed. An initiator that tries again and
// again fills no log.
func (c scsi) failure(err error) sense {
	found := senseUnreadable
	if errors.Is(err, ErrNotReady) {
		found = senseBecoming
	}
	if c.failed != found {
		c.failed = found
		c.server.log.Error("iscsi: reading the disk failed", "target", c.session.Target, "initiator", c.session.Initiator,
			"error", err)
	}
	return found
}

// extent returns the segments of n bytes of the disk.
func (c scsi) extent(off, n int64) cursor {
	disk := c.target.Disk
	inside := max(0, min(n, disk.Size()-off))
	c.segments = disk.AppendSegments(c.segments[:0], off, inside)
	for rest := n - inside; rest > 0; rest -= blockSize {
		part := min(rest, blockSize)
		c.segments = append(c.segments, iso.Segment{Data: zeros[:part], Len: part})
	}
	return cursor{c.segments}
}

// status sends a SCSI response (RFC 7143, section 11.4): a status, and sense data if that is
// CHECK CONDITION.
func (c scsi) status(r request, result result, dataSN uint32, rest residual) error {
	h := newHeader(opResponse, flagFinal|rest.flags, r.tag())
	h[3] = result.status
	h.put(36, dataSN)
	h.put(44, rest.count)
	var data []byte
	if result.status == statusCheck {
		if rest.flags == 0 && r.word(20) > 0 { // all that was expected is missing
			h[1] |= residualUnder
			h.put(44, r.word(20))
		}
		data = binary.BigEndian.AppendUint16(c.scratch[:0], senseLength)
		data = result.sense.appendFixed(data)
	}
	return c.answer(&h, data)
}

// SCSI statuses.
const (
	statusGood  = 0x00
	statusCheck = 0x02
)

// Sense keys.
const (
	keyNone        = 0x00
	keyNotReady    = 0x02
	keyMedium      = 0x03
	keyIllegal     = 0x05
	keyDataProtect = 0x07
)

// senseLength is that of fixed format sense data, in bytes.
const senseLength = 18

// sense is an error: key, additional code and qualifier (SPC-3, section 4.5.6), and the invalid
// byte of the command (0: none, as that is the opcode).
type sense struct {
	key, code, qualifier byte
	field                byte
}

var (
	senseNone         = sense{}
	senseOpcode       = sense{keyIllegal, 0x20, 0x00, 0}
	senseRange        = sense{keyIllegal, 0x21, 0x00, 0}
	senseUnit         = sense{keyIllegal, 0x25, 0x00, 0}
	senseSaved        = sense{keyIllegal, 0x39, 0x00, 0}
	senseTrackMode    = sense{keyIllegal, 0x64, 0x00, 0}
	senseLocked       = sense{keyIllegal, 0x53, 0x02, 0}
	senseNoMedium     = sense{keyNotReady, 0x3a, 0x02, 0}
	senseBecoming     = sense{keyNotReady, 0x04, 0x01, 0}
	senseWriteProtect = sense{keyDataProtect, 0x27, 0x00, 0}
	senseUnreadable   = sense{keyMedium, 0x11, 0x00, 0}
)

// senseField is an invalid field, at a byte of the command.
func senseField(at byte) sense { return sense{keyIllegal, 0x24, 0x00, at} }

// appendFixed adds fixed format sense data.
func (s sense) appendFixed(dst []byte) []byte {
	var b [senseLength]byte
	b[0], b[2], b[7], b[12], b[13] = 0x70, s.key, senseLength-8, s.code, s.qualifier
	if s.field != 0 {
		b[15], b[17] = 0xc0, s.field // valid, in the command
	}
	return append(dst, b[:]...)
}

// appendDescriptor adds descriptor format sense data without descriptors.
func (s sense) appendDescriptor(dst []byte) []byte {
	return append(dst, 0x72, s.key, s.code, s.qualifier, 0, 0, 0, 0)
}

// result is the result of a command: data, or blocks of the disk to read, or a status
// that is not GOOD.
type result struct {
	status       byte
	sense        sense
	data         []byte
	block, count int64
}

func checkCondition(s sense) result { return result{status: statusCheck, sense: s} }

// good answers with data, cut to the allocation length of the command.
func good(data []byte, allocated int) result {
	return result{data: data[:min(len(data), allocated)]}
}
