package audit

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// lossPeriod is how often the log says that events are lost. The library says it for each of them.
const lossPeriod = time.Minute

// lossPrefix begins the library's message about lost events, whose first line has the cause.
const lossPrefix = "Error in audit plugin"

// Losses returns a handler for the log of the library that passes on its message about lost events
// once a minute.
func Losses(h slog.Handler) slog.Handler { return losses{h, &atomic.Int64{}} }

type losses struct {
	slog.Handler
	next *atomic.Int64 // when the log may say it again, in Unix seconds
}

func (l losses) Handle(ctx context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, lossPrefix) {
		return l.Handler.Handle(ctx, r)
	}
	next := l.next.Load()
	if now := r.Time.Unix(); now < next || !l.next.CompareAndSwap(next, now+int64(lossPeriod/time.Second)) {
		return nil
	}
	cause, _, _ := strings.Cut(r.Message, "\n")
	out := slog.NewRecord(r.Time, slog.LevelError, "audit events are lost", r.PC)
	out.AddAttrs(slog.String("error", cause), slog.String("hint",
		"look at the disk of --audit-log-path; the metric apiserver_audit_error_total counts the lost events"))
	return l.Handler.Handle(ctx, out)
}

func (l losses) WithAttrs(attrs []slog.Attr) slog.Handler {
	return losses{l.Handler.WithAttrs(attrs), l.next}
}

func (l losses) WithGroup(name string) slog.Handler { return losses{l.Handler.WithGroup(name), l.next} }
