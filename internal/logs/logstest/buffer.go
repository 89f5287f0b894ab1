// Package logstest collects what tests' servers log.
package logstest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Buffer is an output that can be read while it is written to.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Logger returns a logger of text, and a function for what it has logged so far.
func Logger() (*slog.Logger, func() string) {
	lines := &Buffer{}
	return slog.New(slog.NewTextHandler(lines, nil)), lines.String
}
