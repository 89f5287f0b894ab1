package listener

import (
	"bytes"
	"errors"
	"net"
	"strconv"
)

// A head that gives the length of its body twice, by Content-Length and by
// Transfer-Encoding, is read in two ways by two servers; that is how requests are
// smuggled past a proxy (RFC 9112, 6.1 and 11.2). net/http drops the first without
// a word. So the heads of HTTP/1 are looked at as they are read.

// errAmbiguousHead makes net/http answer 400 and close the connection.
var errAmbiguousHead = errors.New("http: a head that leaves the length of its body open")

// Heads makes a listener whose connections end, with a 400, at a request whose
// head has both Content-Length and Transfer-Encoding, a Transfer-Encoding in
// HTTP/1.0, or a folded line. After a chunked body nothing is looked at any more:
// such a connection has to be closed after the answer, as Bodies does.
func Heads(l net.Listener) net.Listener { return headListener{l} }

type headListener struct{ net.Listener }

// Accept waits for a connection.
func (l headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: conn}, nil
}

type headConn struct {
	net.Conn
	heads heads
	err   error
}

// Read reads up to the last byte of an ambiguous head, and no further.
func (c *headConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if good := c.heads.take(p[:n]); good < n {
		c.err = errAmbiguousHead
		return good, c.err
	}
	return n, err
}

// linePrefix is how much of a line is looked at, in bytes: enough for a field that
// counts here. One that is longer cannot be told and is ambiguous.
const linePrefix = 80

// heads follows what a client sends over one connection: heads, and the bodies
// between them.
type heads struct {
	over bool  // nothing more is looked at
	body int64 // bytes that are left of a body
	// line is how the line that is being read begins, size its length so far, and
	// tail how the request line ends so far, the carriage return included.
	line  []byte
	size  int
	tail  [len(http11) + 1]byte
	begun bool // the request line has been read
	old   bool // it is not of HTTP/1.1
	// sized and chunked say which fields the head has; length is its Content-Length.
	sized, chunked, folded bool
	length                 int64
}

const (
	http11  = "HTTP/1.1"
	preface = "PRI * HTTP/2.0" // the first line of HTTP/2 (RFC 9113, 3.4)
)

// take follows what has been read. It gives how much of it may be passed on: less
// than all where a head is ambiguous.
func (h *heads) take(p []byte) int {
	for at := 0; at < len(p) && !h.over; {
		if h.body > 0 {
			skip := min(h.body, int64(len(p)-at))
			h.body -= skip
			at += int(skip)
			continue
		}
		end := bytes.IndexByte(p[at:], '\n')
		if end < 0 {
			h.collect(p[at:])
			break
		}
		h.collect(p[at : at+end])
		at += end
		if !h.endLine() {
			return at
		}
		at++
	}
	return len(p)
}

// collect takes a part of a line.
func (h *heads) collect(part []byte) {
	h.size += len(part)
	if room := linePrefix - len(h.line); room > 0 {
		h.line = append(h.line, part[:min(room, len(part))]...)
	}
	if !h.begun {
		keep := min(len(part), len(h.tail))
		copy(h.tail[:], h.tail[keep:])
		copy(h.tail[len(h.tail)-keep:], part[len(part)-keep:])
	}
}

// endLine looks at a line that is complete; it reports whether the head, if this
// was its last line, is unambiguous.
func (h *heads) endLine() bool {
	line, whole := bytes.TrimSuffix(h.line, []byte("\r")), h.size <= linePrefix
	h.line, h.size = h.line[:0], 0
	switch {
	case !h.begun:
		h.begun, h.old = true, !bytes.HasSuffix(bytes.TrimSuffix(h.tail[:], []byte("\r")), []byte(http11))
		h.over = string(line) == preface
	case len(line) == 0 && whole:
		return h.endHead()
	case line[0] == ' ' || line[0] == '\t':
		h.folded = true
	default:
		name, value, _ := bytes.Cut(line, []byte(":"))
		h.field(name, bytes.TrimSpace(value), whole)
	}
	return true
}

// field takes a field of the head.
func (h *heads) field(name, value []byte, whole bool) {
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		h.sized = true
		length, err := strconv.ParseInt(string(value), 10, 63)
		if err != nil || !whole {
			h.folded = true // net/http may read it otherwise
		}
		h.length = length
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = true
	}
}

// endHead reports whether the head that has been read is unambiguous.
func (h *heads) endHead() bool {
	if h.folded || h.chunked && (h.sized || h.old) {
		return false
	}
	*h = heads{line: h.line, over: h.chunked, body: max(h.length, 0)}
	return true
}
