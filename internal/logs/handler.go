// Package logs has a slog handler whose output is buffered for a moment and never
// dropped, and bounds on the log lines of requests.
package logs

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// DefaultInterval is how long a line waits at most.
const DefaultInterval = 100 * time.Millisecond

// Options configure a Handler.
type Options struct {
	// Level is the lowest level that is written; nil is Info.
	Level slog.Leveler
	// JSON writes objects instead of key=value text.
	JSON bool
	// Interval is how long a line waits at most; 0 is DefaultInterval.
	Interval time.Duration
}

// Handler is slog's text or JSON handler over a buffer. Lines of level Error and
// above are passed on at once. It is safe for concurrent use.
type Handler struct {
	sink *sink
	slog.Handler
}

// NewHandler writes to out. Close it, so that the last lines get there.
func NewHandler(out io.Writer, opts Options) *Handler {
	if opts.Interval == 0 {
		opts.Interval = DefaultInterval
	}
	s, format := newSink(out, opts.Interval), &slog.HandlerOptions{Level: opts.Level}
	if opts.JSON {
		format.ReplaceAttr = inSeconds
		return &Handler{s, slog.NewJSONHandler(s, format)}
	}
	return &Handler{s, slog.NewTextHandler(s, format)}
}

// inSeconds gives durations in seconds, and says so in their key: slog's JSON has
// nanoseconds without a unit.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// Flush passes on what waits.
func (h *Handler) Flush() { h.sink.flush() }

// Close passes on what waits and ends the handler's goroutine. Lines that come
// later are written at once. The error is the last one of the output.
func (h *Handler) Close() error { return h.sink.close() }

// Handle writes a record.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelError {
		h.sink.flush()
	}
	return err
}

// WithAttrs returns a handler that adds attributes to each line.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.sink, h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts what follows in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.sink, h.Handler.WithGroup(name)}
}

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
