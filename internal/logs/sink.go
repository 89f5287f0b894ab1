package logs

import (
	"io"
	"sync"
	"time"
)

// maxBuffered is how many bytes wait before a writer flushes them itself.
const maxBuffered = 256 << 10

// sink collects lines and writes them together, an interval after the first of them.
// It drops nothing: where the output is slower than the writers, they wait for it.
type sink struct {
	interval time.Duration
	timer    *time.Timer // runs flush

	mu     sync.Mutex // held only to copy
	buf    []byte
	closed bool

	outMu sync.Mutex // held while out is written to; taken before mu
	out   io.Writer
	spare []byte
	err   error
}

func newSink(out io.Writer, interval time.Duration) *sink {
	s := &sink{interval: interval, out: out}
	s.timer = time.AfterFunc(interval, s.flush)
	return s
}

// Write buffers p. Its error is always nil.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	if len(s.buf) == 0 && !s.closed {
		s.timer.Reset(s.interval)
	}
	s.buf = append(s.buf, p...)
	now := s.closed || len(s.buf) >= maxBuffered
	s.mu.Unlock()
	if now {
		s.flush()
	}
	return len(p), nil
}

// flush writes what is buffered.
func (s *sink) flush() {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	s.mu.Lock()
	full := s.buf
	s.buf = s.spare[:0]
	s.mu.Unlock()
	if len(full) > 0 {
		if _, err := s.out.Write(full); err != nil {
			s.err = err
		}
	}
	if s.spare = full[:0]; cap(full) > 4*maxBuffered {
		s.spare = nil
	}
}

// close flushes; later writes are flushed at once. It returns the last error of the
// output.
func (s *sink) close() error {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	s.mu.Unlock()
	s.flush()
	s.outMu.Lock()
	defer s.outMu.Unlock()
	return s.err
}
