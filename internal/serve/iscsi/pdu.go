package iscsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Opcodes of RFC 7143, section 11.2.1.2; the target's have bit 0x20.
const (
	opNopOut     = 0x00
	opCommand    = 0x01
	opTask       = 0x02
	opLogin      = 0x03
	opText       = 0x04
	opDataOut    = 0x05
	opLogout     = 0x06
	opSnack      = 0x10
	opNopIn      = 0x20
	opResponse   = 0x21
	opTaskDone   = 0x22
	opLoginDone  = 0x23
	opTextDone   = 0x24
	opDataIn     = 0x25
	opLogoutDone = 0x26
	opAsync      = 0x32
	opReject     = 0x3f
)

const (
	// headerLen is the length of a basic header segment.
	headerLen = 48
	digestLen = 4
	// maxReceive is the longest data segment taken: the protocol's default.
	// Nothing that a read-only target is sent needs more.
	maxReceive = 8192
	// noTag is the tag of no task.
	noTag = 0xffffffff
	// flagFinal is bit F, or T of a login.
	flagFinal = 0x80
)

// Reasons of a Reject PDU.
const (
	rejectProtocol    = 0x04
	rejectUnsupported = 0x05
)

var (
	errSegment = errors.New("data segment longer than agreed")
	errDigest  = errors.New("digest does not match")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// digests has the parts of a PDU that have a CRC32C (RFC 7143, section 11.2.3).
type digests struct{ header, data bool }

// request is a PDU of the initiator. It points into the connection's read
// buffer and is gone with the next read.
type request struct {
	head []byte // the basic header segment
	data []byte // the data segment without padding
}

func (r request) opcode() byte    { return r.head[0] & 0x3f }
func (r request) immediate() bool { return r.head[0]&0x40 != 0 }
func (r request) flags() byte     { return r.head[1] }
func (r request) lun() uint64     { return binary.BigEndian.Uint64(r.head[8:]) }
func (r request) tag() uint32     { return binary.BigEndian.Uint32(r.head[16:]) }
func (r request) word(at int) uint32 {
	return binary.BigEndian.Uint32(r.head[at:])
}
func (r request) cmdSN() uint32 { return r.word(24) }
func (r request) cdb() []byte   { return r.head[32:48] }

// parse parses a PDU at the start of b (RFC 7143, section 11.2). It returns the PDU's length
// on the wire; if b is shorter than that, the PDU is not complete and the length is the one
// known so far.
func parse(b []byte, with digests) (request, int, error) {
	if len(b) < headerLen {
		return request{}, headerLen, nil
	}
	head := headerLen + int(b[4])*4
	size := int(b[5])<<16 | int(b[6])<<8 | int(b[7])
	if size > maxReceive {
		return request{}, 0, fmt.Errorf("%w: %d bytes", errSegment, size)
	}
	start := head
	if with.header {
		start += digestLen
	}
	padded := start + (size+3)&^3
	total := padded
	if with.data && size > 0 {
		total += digestLen
	}
	if len(b) < total {
		return request{}, total, nil
	}
	if with.header && binary.LittleEndian.Uint32(b[head:]) != crc32.Checksum(b[:head], castagnoli) {
		return request{}, 0, fmt.Errorf("header: %w", errDigest)
	}
	if with.data && size > 0 && binary.LittleEndian.Uint32(b[padded:]) != crc32.Checksum(b[start:padded], castagnoli) {
		return request{}, 0, fmt.Errorf("data: %w", errDigest)
	}
	return request{head: b[:headerLen], data: b[start : start+size]}, total, nil
}

// header is the basic header segment of a PDU of the target.
type header [headerLen]byte

func newHeader(opcode, flags byte, tag uint32) header {
	var h header
	h[0], h[1] = opcode, flags
	h.put(16, tag)
	return h
}

func (h *header) put(at int, v uint32) { binary.BigEndian.PutUint32(h[at:], v) }

func (h *header) setLength(n int) { h[5], h[6], h[7] = byte(n>>16), byte(n>>8), byte(n) }

// appendPDU adds a whole PDU to dst: header, data, padding and digests.
func appendPDU(dst []byte, h *header, data []byte, with digests) []byte {
	h.setLength(len(data))
	dst = appendHeader(dst, h, with)
	start := len(dst)
	return appendTail(append(dst, data...), start, with)
}

func appendHeader(dst []byte, h *header, with digests) []byte {
	dst = append(dst, h[:]...)
	if with.header {
		dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(h[:], castagnoli))
	}
	return dst
}

// appendTail adds what follows a data segment that begins at start.
func appendTail(dst []byte, start int, with digests) []byte {
	n := len(dst) - start
	dst = append(dst, make([]byte, -n&3)...)
	if with.data && n > 0 {
		dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	}
	return dst
}
