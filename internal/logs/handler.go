// Package logs is where log lines go: a slog handler whose output is buffered
// for a moment and never dropped, and lines written by hand for the one place
// where slog costs too much, the request log. Both look the same.
package logs

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// DefaultInterval is how long a line waits at most.
const DefaultInterval = 100 * time.Millisecond

// Options says how lines look and which are written.
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
	derived
	json bool
}

// NewHandler writes to out. Close it, so that the last lines get there.
func NewHandler(out io.Writer, opts Options) *Handler {
	if opts.Level == nil {
		opts.Level = slog.LevelInfo
	}
	if opts.Interval == 0 {
		opts.Interval = DefaultInterval
	}
	s := newSink(out, opts.Interval)
	h := &Handler{derived: derived{sink: s, level: opts.Level}, json: opts.JSON}
	if format := (&slog.HandlerOptions{Level: opts.Level}); opts.JSON {
		h.inner = slog.NewJSONHandler(s, format)
	} else {
		h.inner = slog.NewTextHandler(s, format)
	}
	return h
}

// Flush passes on what waits.
func (h *Handler) Flush() { h.sink.flush() }

// Close passes on what waits and ends the handler's goroutine. Lines that come
// later are written at once. The error is the last one of the output.
func (h *Handler) Close() error { return h.sink.close() }

// derived is a handler with the attributes and groups that it was given.
type derived struct {
	sink  *sink
	level slog.Leveler
	inner slog.Handler
}

// Enabled tells whether lines of a level are written.
func (d *derived) Enabled(_ context.Context, level slog.Level) bool { return level >= d.level.Level() }

// Handle writes a record.
func (d *derived) Handle(ctx context.Context, r slog.Record) error {
	err := d.inner.Handle(ctx, r)
	if r.Level >= slog.LevelError {
		d.sink.flush()
	}
	return err
}

// WithAttrs gives a handler that adds attributes to each line.
func (d *derived) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &derived{d.sink, d.level, d.inner.WithAttrs(attrs)}
}

// WithGroup gives a handler that puts what follows in a group.
func (d *derived) WithGroup(name string) slog.Handler {
	return &derived{d.sink, d.level, d.inner.WithGroup(name)}
}
