package budget

import (
	"context"
	"time"
)

const (
	// paceAfter is how long work is done before it is checked whether machines ask, and idleFactor how long it then
	// rests, as a multiple of its work: it takes an eighth of a processor while machines boot.
	paceAfter  = 2 * time.Millisecond
	idleFactor = 7
)

// Pacer lets background work, such as a prediction or a backup, rest while machines ask.
type Pacer struct {
	ctx context.Context
	// asked counts the requests of machines; nil: the work never rests.
	asked func() uint64
	// last is the time at which the work goes on, and seen the requests until then.
	last time.Time
	seen uint64
	// worked is the time of the work without the rests.
	worked time.Duration
}

// NewPacer returns the pacer of work that begins now. asked counts the requests of machines; nil: the work never rests.
func NewPacer(ctx context.Context, asked func() uint64) *Pacer {
	p := &Pacer{ctx: ctx, asked: asked}
	p.goOn()
	return p
}

func (p *Pacer) goOn() {
	if p.last = time.Now(); p.asked != nil {
		p.seen = p.asked()
	}
}

// Context is that of the work.
func (p *Pacer) Context() context.Context { return p.ctx }

// Pause rests if that is due. It is called often.
func (p *Pacer) Pause() {
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

// Total returns the time of the work.
func (p *Pacer) Total() time.Duration { return p.worked + time.Since(p.last) }
