package natsd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// serverLog hands the NATS server's lines to slog. Its notices are of no use to
// an operator of this program, and appear at debug level.
type serverLog struct{ logger *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Tracef(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Errorf(format string, v ...any)  { l.logger.Error(fmt.Sprintf(format, v...)) }

// Warnf leaves out the one warning that every start would bring: MaxPayload is
// what the largest object needs, and larger than the server likes.
func (l serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, "Maximum payloads over") {
		level = slog.LevelDebug
	}
	l.logger.Log(context.Background(), level, fmt.Sprintf(format, v...))
}

// Fatalf logs only: the server stops by itself, and this process must not.
func (l serverLog) Fatalf(format string, v ...any) { l.logger.Error(fmt.Sprintf(format, v...)) }
