package iscsi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"glowplug/internal/domain/iso"
)

// minZeroCopy is the shortest data segment that is worth a system call of its
// own; shorter ones are gathered in a buffer.
const minZeroCopy = 16 << 10

// errMedium is a failed read of the disk, before the PDU with the data has begun: it
// becomes sense data.
var errMedium = errors.New("disk cannot be read")

// residual is the difference between the data and the length that the initiator expects
// (RFC 7143, section 11.4.5).
type residual struct {
	flags byte
	count uint32
}

const (
	residualOver  = 0x04
	residualUnder = 0x02
)

// compare returns the number of bytes to send of n where the initiator expects some.
func compare(n, expected int64) (send int64, rest residual) {
	switch {
	case n > expected:
		return expected, residual{residualOver, uint32(min(n-expected, 1<<32-1))}
	case n < expected:
		return n, residual{residualUnder, uint32(expected - n)}
	}
	return n, residual{}
}

// reading is a command's data on its way to the initiator.
type reading struct {
	request request
	from    cursor
	size    int64 // bytes to send, more than 0
	rest    residual
	sent    int64
	dataSN  uint32
	disk    Disk // nil: the data is an answer of the drive
}

func (r *reading) check() error {
	if r.disk == nil {
		return nil
	}
	if err := r.disk.Check(); err != nil {
		return fmt.Errorf("%w: %w", errMedium, err)
	}
	return nil
}

// sendData sends Data-In PDUs (RFC 7143, section 11.7), the last of them with the status GOOD.
func (c scsi) sendData(r *reading) error {
	if c.zeroCopy(r) && r.from.isFilesAndMemory() {
		if err := r.check(); err != nil {
			return err
		}
		// The status GOOD is for all of the data, so the end goes through a buffer and is
		// checked first.
		if err := c.sendFiles(r, r.size-blockSize); err != nil {
			return err
		}
	}
	return c.sendCopies(r)
}

// zeroCopy reports whether the kernel copies the data. With data digests that is
// impossible. Copying is faster for short reads, and while further requests wait: then
// the number of packets costs most, and those from the page cache cannot be joined.
func (c scsi) zeroCopy(r *reading) bool {
	least := int64(minZeroCopy)
	if c.to-c.from >= headerLen {
		least = chunk
	}
	return platformZeroCopy && c.out.raw != nil && !c.params.data && c.params.maxSend >= minZeroCopy &&
		r.size >= least && r.size%4 == 0
}

// sendFiles sends the first bytes of the data, from the page cache and from memory.
func (c scsi) sendFiles(r *reading, last int64) error {
	for r.sent < last {
		h, n := c.dataHeader(r, int(min(int64(c.params.maxSend), last-r.sent)))
		c.out.buf = appendHeader(c.out.buf[:0], &h, c.params.digests)
		head := c.out.buf
		for n > 0 {
			part := r.from.next(int64(n))
			n -= int(part.Len)
			if err := c.sendPart(&head, part, n > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendPart sends one segment behind the header, if that was not sent yet.
func (c scsi) sendPart(head *[]byte, part iso.Segment, more bool) error {
	first := *head
	*head = nil
	if file, ok := part.Source.(*os.File); ok && part.Data == nil {
		return c.out.send(first, int(file.Fd()), part.Off, int(part.Len), more)
	}
	if len(first) > 0 {
		if err := c.out.send(first, 0, 0, 0, true); err != nil {
			return err
		}
	}
	return c.out.send(part.Data, 0, 0, 0, more)
}

// sendCopies gathers PDUs in a buffer and sends as many as fit at once.
func (c scsi) sendCopies(r *reading) error {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	b := (*pooled)[:0]
	for r.sent < r.size {
		before, statSN := *r, c.statSN
		h, n := c.dataHeader(r, maxCopied)
		if len(b) > 0 && len(b)+headerLen+2*digestLen+n+3 > cap(b) {
			if _, err := c.out.net.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		begin := len(b)
		b = appendHeader(b, &h, c.params.digests)
		start := len(b)
		b = b[:start+n]
		err := r.from.read(b[start:])
		if err != nil {
			err = fmt.Errorf("%w: %w", errMedium, err)
		} else {
			err = r.check()
		}
		if err != nil {
			*r, c.statSN = before, statSN
			if _, err := c.out.net.Write(b[:begin]); err != nil {
				return err
			}
			return err
		}
		b = appendTail(b, start, c.params.digests)
	}
	_, err := c.out.net.Write(b)
	return err
}

// dataHeader makes the header of the next Data-In PDU, of n bytes of data. The
// last one, with the status, takes a status number.
func (c scsi) dataHeader(r *reading, limit int) (h header, n int) {
	c.active.Store(time.Now().UnixNano())
	burst := int64(c.params.maxBurst)
	size := min(r.size-r.sent, burst-r.sent%burst, int64(min(limit, c.params.maxSend)))
	h = newHeader(opDataIn, 0, r.request.tag())
	h.setLength(int(size))
	copy(h[8:16], r.request.head[8:16])
	h.put(20, noTag)
	h.put(36, r.dataSN)
	h.put(40, uint32(r.sent))
	r.sent += size
	r.dataSN++
	switch {
	case r.sent == r.size:
		h[1] = flagFinal | 0x01 | r.rest.flags
		h.put(44, r.rest.count)
		c.numbers(&h)
	default:
		if r.sent%burst == 0 {
			h[1] = flagFinal
		}
		c.window(&h)
	}
	return h, int(size)
}

// cursor walks along segments.
type cursor struct{ segments []iso.Segment }

// isFilesAndMemory reports whether no segment has another source.
func (c *cursor) isFilesAndMemory() bool {
	for i := range c.segments {
		if _, file := c.segments[i].Source.(*os.File); !file && c.segments[i].Data == nil {
			return false
		}
	}
	return true
}

// next takes a piece of at most n bytes off the front.
func (c *cursor) next(n int64) iso.Segment {
	part, rest := c.segments[0].Split(n)
	if c.segments[0] = rest; rest.Len == 0 {
		c.segments = c.segments[1:]
	}
	return part
}

// read fills b from the front.
func (c *cursor) read(b []byte) error {
	for len(b) > 0 {
		part := c.next(int64(len(b)))
		to := b[:part.Len]
		b = b[part.Len:]
		if part.Data != nil {
			copy(to, part.Data)
		} else if err := readAt(part.Source, to, part.Off); err != nil {
			return err
		}
	}
	return nil
}

// readAt reads all of b. A reader may return io.EOF with the last byte.
func readAt(from io.ReaderAt, b []byte, off int64) error {
	n, err := from.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

const (
	// chunk is how much data a pooled buffer carries.
	chunk = 128 << 10
	// maxCopied is the longest data segment that goes through a buffer; longer
	// reads become several PDUs.
	maxCopied = 64 << 10
)

// buffers carry data that cannot go from the page cache to the socket by
// itself. They are held while something is sent, never between requests.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, chunk+8<<10)
	return &b
}}

// sender is the writing side of a connection.
type sender struct {
	net net.Conn
	raw syscall.RawConn // nil: sendfile is out of the question
	buf []byte          // for PDUs that carry little
	transfer
}

func newSender(conn net.Conn) sender {
	s := sender{net: conn}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// pdu sends a PDU with one write.
func (s *sender) pdu(h *header, data []byte, with digests) error {
	s.buf = appendPDU(s.buf[:0], h, data, with)
	_, err := s.net.Write(s.buf)
	return err
}
