package listener

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
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

// ReadFrom writes what r has.
func (c *headConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

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
	case bytes.ContainsAny(line[:1], " \t"): // folded
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

// net/http waits without limit for a body: while a handler reads it, and before and after
// the answer. So each request with a body has a deadline, which moves with what arrives.
const (
	// bodyPatience is how long a body may take beyond the time that its size takes at
	// bodyRate.
	bodyPatience = 20 * time.Second
	// bodyRate is the least that a client has to send, in bytes a second.
	bodyRate = 1 << 10
	// bodyPause bounds the wait for the next part of a body, however much came before.
	bodyPause = time.Minute
	// leftoverWait bounds the wait for the rest of a body that the handler did not read.
	leftoverWait = 500 * time.Millisecond
)

// errSlowBody is the error of a body that arrives too slowly.
var errSlowBody = errors.New("the request's body did not arrive in time: send at least 1 KiB a second")

// Bodies makes a handler whose requests cannot hold a connection by a body that
// does not arrive. The body of a GET or HEAD request is not read: its connection ends
// with the answer.
func Bodies(next http.Handler) http.Handler {
	return bodies{next: next, patience: bodyPatience, pause: bodyPause}
}

type bodies struct {
	next            http.Handler
	patience, pause time.Duration
}

// ServeHTTP implements http.Handler.
func (b bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		b.next.ServeHTTP(w, r)
		return
	}
	control := http.NewResponseController(w)
	unread := r.Method == http.MethodGet || r.Method == http.MethodHead
	if r.ProtoMajor == 1 && (unread || len(r.TransferEncoding) > 0) {
		// After a chunked body heads are not checked any more, see Heads.
		w.Header().Set("Connection", "close")
	}
	inner := *r
	if unread {
		_ = control.SetReadDeadline(time.Now())
		inner.Body, inner.ContentLength, inner.TransferEncoding = http.NoBody, 0, nil
		b.next.ServeHTTP(w, &inner)
		return
	}
	body := &timedBody{ReadCloser: r.Body, control: control, left: b.patience, pause: b.pause}
	body.setDeadline()
	inner.Body = body
	defer body.leave()
	b.next.ServeHTTP(w, &inner)
}

// timedBody is a body whose client has to keep sending.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	left    time.Duration // what the client may still take, reads in sum
	pause   time.Duration // what it may take for the next part
	ended   bool
}

// setDeadline sets the deadline of the connection, or of the stream in HTTP/2.
func (b *timedBody) setDeadline() {
	_ = b.control.SetReadDeadline(time.Now().Add(min(b.left, b.pause)))
}

// Read reads what has arrived, or fails once the client has been too slow.
func (b *timedBody) Read(p []byte) (int, error) {
	b.setDeadline()
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.left += time.Duration(n)*time.Second/bodyRate - time.Since(began)
	if errors.Is(err, io.EOF) {
		b.ended = true // net/http takes the deadline away
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSlowBody
	}
	return n, err
}

// leave bounds the wait for what the handler did not read.
func (b *timedBody) leave() {
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(leftoverWait))
	}
}
