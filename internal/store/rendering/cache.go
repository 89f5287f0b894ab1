// Package rendering is the cache of rendered templates: each is rendered and compiled
// once for a host and all that the template can see of it, whoever waits for it, within
// bounds of memory and processors.
package rendering

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

const (
	// maxHostBytes bounds the results for hosts: 10,000 of 5 KB and as much again.
	maxHostBytes = 128 << 20
	// maxStrangerBytes bounds those for machines that are no known hosts: they take no
	// memory from the hosts'.
	maxStrangerBytes = 16 << 20
	// maxParsedBytes bounds the templates that are cached parsed, in bytes of their
	// sources; parsed they take some twenty times that.
	maxParsedBytes = 4 << 20
	// patience is how long a machine waits for its config to be rendered: less than
	// the 10 s after which Ignition asks anew.
	patience = 8 * time.Second
)

// Ref names an object.
type Ref = snapshot.Ref

// Result is a template rendered and compiled for one machine. It is never changed.
type Result struct {
	// Artifact is the body of the answer; nil where there is none.
	Artifact []byte
	// Hash is "sha256:" and the hex digest of Artifact; ETag is Hash in quotes.
	Hash, ETag      string
	IgnitionVersion string
	// Message says why there is no Artifact, and where in the template or in the
	// rendered text.
	Message string
	// Warnings are findings that do not stop it from being served.
	Warnings []string

	// stack are its layers; nil without layers.
	stack *snapshot.Stack
}

// Options are the surroundings of a Cache.
type Options struct {
	// Inventory has the layers of templates; nil: there are none.
	Inventory *snapshot.Inventory
	// Render renders a template; nil: Template.Render.
	Render func(*compile.Template, *template.Facts) compile.Rendering
	// Registerer takes the metrics; nil: nothing is counted.
	Registerer prometheus.Registerer
}

// Cache renders templates, and caches the results. It is safe for concurrent use.
type Cache struct {
	opts     Options
	patience time.Duration
	slots    slots
	metrics  *metrics
	jobs     sync.WaitGroup

	mu               sync.Mutex
	hosts, strangers *results
	calls            map[callKey]*call
	admission        admission
	parsed           *lru[string, *compile.Template]
	closed           bool
}

// New returns an empty Cache.
func New(opts Options) *Cache {
	if opts.Render == nil {
		opts.Render = (*compile.Template).Render
	}
	c := &Cache{
		opts:      opts,
		patience:  patience,
		slots:     newSlots(runtime.GOMAXPROCS(0)),
		hosts:     newResults(maxHostBytes),
		strangers: newResults(maxStrangerBytes),
		calls:     map[callKey]*call{},
		admission: admission{bySource: map[source]int{}},
		parsed:    newLRU[string, *compile.Template](maxParsedBytes, nil),
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Close ends what waits to be rendered, and waits for what is being rendered: no more
// than there are slots, and none takes longer than a template may.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, call := range c.calls {
		call.cancel()
	}
	c.mu.Unlock()
	c.jobs.Wait()
}

// Busy reports whether anything is being rendered, or waits to be.
func (c *Cache) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// Render implements decide.Renderer.
func (c *Cache) Render(config *snapshot.Config, host *snapshot.Host, facts *template.Facts, asker decide.Asker) (
	*snapshot.Config, *fault.Error) {
	who, job := subjectOf(config, host, facts), c.Task(config)
	own := facts == nil
	if own {
		if answer := c.lastAnswer(who, &job, host); answer != nil {
			return answer, nil
		}
		facts = host.Facts()
	}
	var sources []source
	if host == nil && !asker.Caller.Believed {
		sources = sourcesOf(&asker.Caller)
	}
	result, call := c.join(&job, who, facts, sources)
	name := "config " + config.Ref.String() + ", a template,"
	if result == nil {
		if call == nil {
			return nil, fault.New(fault.Unavailable, name+" is not rendered for "+describe(host, facts)+
				" while too many machines wait that are no known hosts; ask again in a moment")
		}
		late := time.NewTimer(c.patience)
		defer late.Stop()
		if result = c.await(call, asker.Gone, late.C); result == nil {
			return nil, fault.New(fault.Unavailable, name+" is yet to be rendered for "+
				describe(host, facts)+"; ask again in a moment")
		}
	}
	answer, found := c.answer(who, &job, host, result, own)
	if !found {
		return nil, fault.New(fault.Unavailable, name+" cannot be rendered for "+describe(host, facts)+": "+result.Message)
	}
	return answer, nil
}

// RenderAhead renders a template for a host that has not asked for it. The result is nil
// where the cache was closed or ctx has ended.
func (c *Cache) RenderAhead(ctx context.Context, job *Task, host *snapshot.Host) *Result {
	result, call := c.join(job, subjectOf(job.config, host, nil), host.Facts(), nil)
	if call != nil {
		result = c.await(call, ctx.Done(), nil)
	}
	return result
}

// await returns the result of a call; nil where it has none before gone is closed or the
// time is over.
func (c *Cache) await(call *call, gone <-chan struct{}, late <-chan time.Time) *Result {
	defer c.leave(call)
	select {
	case <-call.done:
		return call.result
	case <-gone:
	case <-late:
	}
	return nil
}

// describe names a machine in a sentence.
func describe(host *snapshot.Host, facts *template.Facts) string {
	switch {
	case host != nil:
		return "host " + host.Ref.String()
	case facts.IP != "":
		return facts.IP + ", which is no known host"
	}
	return "a machine that is no known host"
}

// resultsOf returns the results among which those of a subject are.
func (c *Cache) resultsOf(who subject) *results {
	if who.host == (Ref{}) {
		return c.strangers
	}
	return c.hosts
}

// lastAnswer returns the answer to the last request of a host where that was for the
// same template and layers and the host has not changed since; else nil.
func (c *Cache) lastAnswer(who subject, job *Task, host *snapshot.Host) *snapshot.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.hosts.get(who)
	if e == nil || e.config != job.config || e.host != host || e.version.source != job.Source {
		return nil
	}
	return e.answer
}

// answer returns the config that a result makes of a template. Where that has no artifact
// a host is given the last result that has one; found is false where there is none. A
// host that claims nothing is remembered with its answer.
func (c *Cache) answer(who subject, job *Task, host *snapshot.Host, result *Result, own bool) (
	answer *snapshot.Config, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *entry
	if host != nil {
		e = c.hosts.get(who)
	}
	switch {
	case result.Artifact != nil:
		answer = servedConfig(job.config, result, false)
		if own && e != nil && e.latest == result {
			e.config, e.host, e.answer = job.config, host, answer
		}
	case e != nil && e.good != nil:
		answer = servedConfig(job.config, e.good, true)
	}
	return answer, answer != nil
}

// servedConfig returns a config with a result in the place of its template.
func servedConfig(config *snapshot.Config, r *Result, stale bool) *snapshot.Config {
	out := *config
	out.Template, out.Source = false, ""
	out.Artifact, out.Hash, out.ETag, out.IgnitionVersion = r.Artifact, r.Hash, r.ETag, r.IgnitionVersion
	out.Stale, out.Stack = out.Stale || stale, r.stack
	return &out
}
