package logs

import (
	"io"
	"sync"
	"time"
)

// maxBuffered is how many bytes wait before a writer flushes them itself.
const maxBuffered = 256 << 10

// sink gathers what is written and passes it on in large pieces. It drops
// nothing: where the output is slower than the writers, they wait for it.
type sink struct {
	interval time.Duration
	dirty    chan struct{} // holds one: buf has something
	done     chan struct{}
	closing  sync.Once
	running  sync.WaitGroup

	mu     sync.Mutex // held for a copy alone
	buf    []byte
	closed bool

	outMu sync.Mutex // held while out is written to; taken before mu
	out   io.Writer
	spare []byte
	err   error
}

func newSink(out io.Writer, interval time.Duration) *sink {
	s := &sink{interval: interval, out: out, dirty: make(chan struct{}, 1), done: make(chan struct{})}
	s.running.Go(s.run)
	return s
}

// Write takes p, to be passed on within the interval. Its error is always nil.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	first := len(s.buf) == 0
	s.buf = append(s.buf, p...)
	now := s.closed || len(s.buf) >= maxBuffered
	s.mu.Unlock()
	if now {
		s.flush()
	} else if first {
		select {
		case s.dirty <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// flush passes on what is there.
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

// run flushes an interval after the first write since the last flush.
func (s *sink) run() {
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	for {
		select {
		case <-s.dirty:
		case <-s.done:
			return
		}
		timer.Reset(s.interval)
		select {
		case <-timer.C:
		case <-s.done:
			return
		}
		s.flush()
	}
}

// close flushes and ends the goroutine. Later writes go through at once. It
// returns the last error of the output.
func (s *sink) close() error {
	s.closing.Do(func() {
		close(s.done)
		s.running.Wait()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	})
	s.flush()
	s.outMu.Lock()
	defer s.outMu.Unlock()
	return s.err
}
