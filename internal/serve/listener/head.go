package listener

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"strconv"
)

// A head that gives the length of its body twice, by Content-Length and by
// Transfer-Encoding, is read in two ways by two servers; that is how requests are
// smuggled past a proxy (RFC 9112, 6.1 and 11.2). net/http ignores the first. So the
// heads of HTTP/1 are checked while they are read.

// errAmbiguousHead makes net/http answer 400 and close the connection.
var errAmbiguousHead = errors.New("http: a head that leaves the length of its body open")

// Heads makes a listener whose connections end, with a 400, at a request whose
// head has both Content-Length and Transfer-Encoding, a Transfer-Encoding in
// HTTP/1.0, or a folded line. After a chunked body nothing is checked any more:
// such a connection has to be closed after the answer, as Bodies does.
func Heads(l net.Listener) net.Listener {
	return Wrap(l, func(conn net.Conn) net.Conn { return &headConn{Conn: conn} })
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
	if good := c.heads.check(p[:n]); good < n {
		c.err = errAmbiguousHead
		return good, c.err
	}
	return n, err
}

// heads follows the heads and bodies that a client sends over one connection.
type heads struct {
	over  bool   // nothing more is checked
	body  int64  // bytes that are left of a body
	line  []byte // the beginning of a line that is not complete
	begun bool   // the request line has been read
	old   bool   // it is not of HTTP/1.1
	// sized and chunked are true where the head has such a field; length is its
	// Content-Length.
	sized, chunked, malformed bool
	length                    int64
}

const (
	// maxLine bounds a line. net/http refuses a head of that length.
	maxLine = http.DefaultMaxHeaderBytes
	http11  = "HTTP/1.1"
	preface = "PRI * HTTP/2.0" // the first line of HTTP/2 (RFC 9113, 3.4)
)

// check follows what has been read. It returns how much of it may be passed on: less
// than all where a head is ambiguous.
func (h *heads) check(p []byte) int {
	for at := 0; at < len(p) && !h.over; {
		if h.body > 0 {
			skip := min(h.body, int64(len(p)-at))
			h.body -= skip
			at += int(skip)
			continue
		}
		line, _, complete := bytes.Cut(p[at:], []byte("\n"))
		at += len(line)
		if len(h.line) > 0 || !complete {
			h.line = append(h.line, line...)
			line = h.line
		}
		if len(line) > maxLine || complete && !h.endLine(bytes.TrimSuffix(line, []byte("\r"))) {
			return at
		}
		if complete {
			h.line = nil
			at++
		}
	}
	return len(p)
}

// endLine checks a line; it reports whether the head, if this was its last line, is
// unambiguous.
func (h *heads) endLine(line []byte) bool {
	switch {
	case !h.begun:
		h.begun, h.old = true, !bytes.HasSuffix(line, []byte(http11))
		h.over = string(line) == preface
		return true
	case len(line) == 0:
		ambiguous := h.malformed || h.chunked && (h.sized || h.old)
		*h = heads{over: h.chunked, body: max(h.length, 0)}
		return !ambiguous
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case line[0] == ' ' || line[0] == '\t': // folded
		h.malformed = true
	case bytes.EqualFold(name, []byte("Content-Length")):
		length, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 63)
		h.sized, h.length = true, length
		h.malformed = h.malformed || err != nil // net/http may read it otherwise
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = true
	}
	return true
}
