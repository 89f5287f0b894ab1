package rendering

import (
	"strings"
	"time"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// call is a rendering that is being made. rendered may be read once done is closed;
// nil: it was not made, because the cache was closed or nobody waited any more.
type call struct {
	done     chan struct{}
	rendered *Rendered
	turn     *turn
	key      key
	// waiting counts those who wait for it; the cache's lock guards it.
	waiting int
}

// rankOf is the rank of a machine that asks. A caller who is believed is no stranger,
// whatever machine it asks about.
func rankOf(host *snapshot.Host, caller *identity.Caller) rank {
	if host != nil || caller.Believed {
		return asking
	}
	return stranger
}

// sourcesOf is what a stranger is counted by.
func sourcesOf(caller *identity.Caller) []source {
	sources := []source{{addr: netaddr.Source(caller.Addr)}}
	if caller.MAC != (netaddr.MAC{}) {
		sources = append(sources, source{mac: caller.MAC})
	}
	return sources
}

// begin starts a rendering, or joins one that is running: many requests at once wait for
// one rendering. The result is nil where caller is a stranger and the queue has no place
// for it. Otherwise the caller of begin calls leave once.
func (c *Cache) begin(job *Task, who owner, facts *template.Facts, r rank, caller *identity.Caller) *call {
	k := job.key(facts)
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.keptFor(who)
	if made := kept.find(k); made != nil {
		done := make(chan struct{})
		close(done)
		return &call{done: done, rendered: made, waiting: 1}
	}
	if running := c.calls[k]; running != nil {
		if r == asking {
			c.slots.hurry(running.turn)
		}
		running.waiting++
		return running
	}
	turn := newTurn(r)
	if r == stranger {
		turn.sources = sourcesOf(caller)
	}
	call := &call{done: make(chan struct{}), turn: turn, waiting: 1}
	if c.closed {
		close(call.done)
		return call
	}
	if !c.slots.enter(turn) {
		c.metrics.refused.Inc()
		return nil
	}
	// The key must not keep the config's bytes in memory.
	k.source, k.format = strings.Clone(k.source), strings.Clone(k.format)
	call.key = k
	c.calls[k] = call
	c.jobs.Go(func() {
		defer close(call.done)
		if c.slots.wait(turn, c.stop) {
			if !c.stopping() { // the slot may have come with the end
				began := time.Now()
				call.rendered = c.make(job, facts)
				c.metrics.rendered(call.rendered, time.Since(began))
			}
			c.slots.give(turn)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.calls[k] == call {
			delete(c.calls, k)
		}
		if call.rendered != nil {
			call.rendered = kept.put(k, who, call.rendered)
		}
	})
	return call
}

// leave says that somebody waits no longer. What nobody waits for and has not begun is
// not rendered.
func (c *Cache) leave(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.waiting--; call.waiting > 0 || c.calls[call.key] != call || !c.slots.drop(call.turn) {
		return
	}
	delete(c.calls, call.key) // who asks from now on is rendered for
	c.metrics.abandoned.Inc()
}

// keptFor is where the renderings for a machine are kept.
func (c *Cache) keptFor(who owner) *kept {
	if who == (owner{}) {
		return &c.strange
	}
	return &c.kept
}
