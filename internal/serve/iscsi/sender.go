package iscsi

import (
	"net"
	"sync"
	"syscall"
)

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
