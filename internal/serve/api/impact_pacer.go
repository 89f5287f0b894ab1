package api

import (
	"context"
	"syscall"
	"time"
)

const (
	// paceAfter is how long a prediction works before it is checked whether the process is busy.
	paceAfter = 2 * time.Millisecond
	// busyShare is the processor time of others, as a part of the time of a prediction, from which
	// the process is busy, and idleFactor how long the prediction then rests, as a multiple of its
	// work: it takes an eighth of a processor while machines boot.
	busyShare  = 0.25
	idleFactor = 7
)

// pacer lets a prediction rest while the rest of the process is busy, as when machines boot.
type pacer struct {
	ctx context.Context
	// last is the time at which the work goes on, and cpu the processor time of the process then.
	last time.Time
	cpu  time.Duration
	// worked is the time of the work without the rests.
	worked time.Duration
}

func newPacer(ctx context.Context) *pacer {
	return &pacer{ctx: ctx, last: time.Now(), cpu: processTime()}
}

// pause rests if that is due. It is called often.
func (p *pacer) pause() {
	worked := time.Since(p.last)
	if worked < paceAfter {
		return
	}
	p.worked += worked
	others := processTime() - p.cpu - worked
	if others > time.Duration(float64(worked)*busyShare) {
		select {
		case <-time.After(idleFactor * worked):
		case <-p.ctx.Done():
		}
	}
	p.last, p.cpu = time.Now(), processTime()
}

// total returns the time of the work.
func (p *pacer) total() time.Duration { return p.worked + time.Since(p.last) }

// processTime returns the processor time of the process.
func processTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
