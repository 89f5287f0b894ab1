package rendering

import (
	"context"
	"strings"
	"time"

	"glowplug/internal/domain/template"
)

// call is a rendering that is made once for all who wait for it. Whoever began or joined
// it leaves it once.
type call struct {
	who     subject
	version Version
	// sources are those of a stranger; none: it is for a known host, or for a caller
	// who is believed.
	sources []source
	// done is closed at its end. result is nil then where the cache was closed or nobody
	// waited any more.
	done   chan struct{}
	result *Result

	// Cache.mu guards the rest. waiting is the number of those who wait, running is true
	// once it has its slot, and cancel ends its waiting for one.
	waiting int
	running bool
	cancel  context.CancelFunc
}

// callKey is what a call is joined by.
type callKey struct {
	who     subject
	version Version
}

func (call *call) key() callKey { return callKey{call.who, call.version} }

// join begins a rendering, or joins the one that is under way. It returns the result
// where that is cached, and neither where there is no place for the stranger that the
// sources are of.
func (c *Cache) join(job *Task, who subject, facts *template.Facts, sources []source) (*Result, *call) {
	version := job.version(facts)
	c.mu.Lock()
	defer c.mu.Unlock()
	if result := c.resultsOf(who).find(who, version); result != nil {
		return result, nil
	}
	if under := c.calls[callKey{who, version}]; under != nil {
		under.waiting++
		return nil, under
	}
	if !c.closed && !c.admission.admit(sources) {
		c.metrics.refused.Inc()
		return nil, nil
	}
	// The version must not keep the config's bytes in memory.
	version.source, version.format = strings.Clone(version.source), strings.Clone(version.format)
	ctx, cancel := context.WithCancel(context.Background())
	call := &call{who: who, version: version, sources: sources, done: make(chan struct{}), waiting: 1, cancel: cancel}
	if c.closed {
		close(call.done)
		return nil, call
	}
	c.calls[call.key()] = call
	c.jobs.Go(func() { c.run(ctx, call, job, facts) })
	return nil, call
}

// run renders for a call, unless nobody waits for it any more once it has a slot.
func (c *Cache) run(ctx context.Context, call *call, job *Task, facts *template.Facts) {
	defer close(call.done)
	defer call.cancel()
	stranger := len(call.sources) > 0
	pending := c.metrics.pending(stranger)
	pending.Inc()
	err := c.slots.acquire(ctx, stranger)
	pending.Dec()
	if err == nil {
		if c.start(call) {
			began := time.Now()
			call.result = c.make(job, facts)
			c.metrics.rendered(call.result, time.Since(began))
		}
		c.slots.release(stranger)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admission.add(call.sources, -1)
	if c.calls[call.key()] == call {
		delete(c.calls, call.key())
	}
	if call.result != nil {
		c.resultsOf(call.who).add(call.who, call.version, call.result)
	}
}

// start reports whether a call that has its slot is still wanted.
func (c *Cache) start(call *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.running = !c.closed && call.waiting > 0
	return call.running
}

// leave ends somebody's waiting. A call that nobody waits for and that has no slot yet is
// given up.
func (c *Cache) leave(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.waiting--; call.waiting == 0 && !call.running && c.calls[call.key()] == call {
		delete(c.calls, call.key()) // who asks from now on begins another
		call.cancel()
		c.metrics.abandoned.Inc()
	}
}
