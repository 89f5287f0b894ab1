package api

import (
	"context"
	"time"
)

const (
	// paceAfter is how long a prediction works before it is checked whether machines ask, and idleFactor how long it then
	// rests, as a multiple of its work: it takes an eighth of a processor while machines boot.
	paceAfter  = 2 * time.Millisecond
	idleFactor = 7
)

// pacer lets a prediction rest while machines ask.
type pacer struct {
	ctx context.Context
	// asked counts the requests of machines; nil: the prediction never rests.
	asked func() uint64
	// last is the time at which the work goes on, and seen the requests until then.
	last time.Time
	seen uint64
	// worked is the time of the work without the rests.
	worked time.Duration
}

func newPacer(ctx context.Context, asked func() uint64) *pacer {
	p := &pacer{ctx: ctx, asked: asked}
	p.goOn()
	return p
}

func (p *pacer) goOn() {
	if p.last = time.Now(); p.asked != nil {
		p.seen = p.asked()
	}
}

// pause rests if that is due. It is called often.
func (p *pacer) pause() {
	worked := time.Since(p.last)
	if worked < paceAfter {
		return
	}
	p.worked += worked
	if p.asked != nil && p.asked() != p.seen {
		select {
		case <-time.After(idleFactor * worked):
		case <-p.ctx.Done():
		}
	}
	p.goOn()
}

// total returns the time of the work.
func (p *pacer) total() time.Duration { return p.worked + time.Since(p.last) }
