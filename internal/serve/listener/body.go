package listener

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// net/http waits without limit for a body that was announced, while a handler
// reads it and once more before and after the answer. So each request with a body
// has a deadline, which moves on with what arrives.
const (
	// bodyPatience is how long a body may be waited for beside the time that its
	// size takes at bodyRate.
	bodyPatience = 20 * time.Second
	// bodyRate is what a client has to send, in bytes for a second.
	bodyRate = 1 << 10
	// bodyRearms is how often the patience is divided: a deadline is set anew once it
	// has moved by such a part.
	bodyRearms = 20
	// leftoverWait is how long the rest of a body is waited for that the handler
	// did not read.
	leftoverWait = 500 * time.Millisecond
)

// errSlowBody is what a handler reads from a body that comes too slowly.
var errSlowBody = errors.New("the request's body did not arrive in time: send at least 1 KiB a second")

// Bodies makes a handler whose requests cannot hold a connection by a body that
// does not arrive. A GET or HEAD request has no body that anybody reads: its
// connection ends with the answer.
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
		// After a chunked body heads are not checked any more: see Heads.
		w.Header().Set("Connection", "close")
	}
	inner := *r
	if unread {
		_ = control.SetReadDeadline(time.Now())
		inner.Body, inner.ContentLength, inner.TransferEncoding = http.NoBody, 0, nil
		b.next.ServeHTTP(w, &inner)
		return
	}
	body := &timedBody{ReadCloser: r.Body, control: control, left: b.patience, rearm: b.patience / bodyRearms}
	body.arm()
	inner.Body = body
	defer body.leave()
	b.next.ServeHTTP(w, &inner)
}

// timedBody is a body whose client has to keep sending.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	left    time.Duration // what the client may still take, reads in sum
	rearm   time.Duration // the least change of a deadline that is set
	armed   time.Time     // the deadline that is set
	ended   bool
}

// arm sets the deadline of the connection, or of the stream in HTTP/2.
func (b *timedBody) arm() {
	if deadline := time.Now().Add(b.left); deadline.Sub(b.armed).Abs() >= b.rearm {
		_ = b.control.SetReadDeadline(deadline)
		b.armed = deadline
	}
}

// Read reads what has arrived, or fails once the client has been too slow.
func (b *timedBody) Read(p []byte) (int, error) {
	b.arm()
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
