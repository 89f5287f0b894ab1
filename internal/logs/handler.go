// Package logs has a slog handler whose output is buffered for a moment and never
// dropped, and bounds on the log lines of requests.
package logs

import (
	"context"
	"io"
	"log/slog"
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
		return &Handler{s, slog.NewJSONHandler(s, format)}
	}
	return &Handler{s, slog.NewTextHandler(s, format)}
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
