package listener

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// net/http waits without limit for a body: while a handler reads it, and before and after
// the answer. So each request with a body has a deadline, which moves with what arrives.
const (
	// bodyPatience is how long a body may take beyond the time that its size takes at
	// bodyRate.
	bodyPatience = 20 * time.Second
	// bodyRate is the least that a client has to send, in bytes a second.
	bodyRate = 1 << 10
	// leftoverWait bounds the wait for the rest of a body that the handler did not read.
	leftoverWait = 500 * time.Millisecond
)

// errSlowBody is the error of a body that arrives too slowly.
var errSlowBody = errors.New("the request's body did not arrive in time: send at least 1 KiB a second")

// Bodies makes a handler whose requests cannot hold a connection by a body that
// does not arrive. The body of a GET or HEAD request is not read: its connection ends
// with the answer.
func Bodies(next http.Handler) http.Handler {
	return bodies{next: next, patience: bodyPatience}
}

type bodies struct {
	next     http.Handler
	patience time.Duration
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
	body := &timedBody{ReadCloser: r.Body, control: control, left: b.patience}
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
	ended   bool
}

// setDeadline sets the deadline of the connection, or of the stream in HTTP/2.
func (b *timedBody) setDeadline() { _ = b.control.SetReadDeadline(time.Now().Add(b.left)) }

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
