package client

import (
	"io"
	"os"
	"sync"
)

// Body is the body of one try of an upload. A transport may still read it after it has answered
// the request (http.Request.Body), while the next try runs. So each try has a Body of its own,
// with its own position, which does not count after Close.
type Body struct {
	from  io.Reader
	count func(int64)

	mu     sync.Mutex
	closed bool
}

// NewBody returns a Body that reads from a reader and calls count with the bytes of each Read.
func NewBody(from io.Reader, count func(int64)) *Body { return &Body{from: from, count: count} }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, os.ErrClosed
	}
	n, err := b.from.Read(p)
	b.count(int64(n))
	return n, err
}

// Close implements io.Closer. No Read is under way when it returns.
func (b *Body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}
