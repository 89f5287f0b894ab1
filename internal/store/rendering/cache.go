// Package rendering is the cache of rendered templates. A template is rendered and compiled
// once for a host, until the template, its layers or the facts of the host change. Memory
// and the number of simultaneous renderings are bounded.
package rendering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
	"glowplug/internal/limit"
	"glowplug/internal/store/snapshot"
)

const (
	// maxHostBytes bounds the results for hosts: twice the memory of 10,000 results of 5 KB.
	maxHostBytes = 128 << 20
	// maxStrangerBytes bounds the results for strangers, which are machines that are no
	// known hosts.
	maxStrangerBytes = 16 << 20
	// maxParsedBytes bounds the parsed templates, in bytes of their sources; a parsed
	// template takes some twenty times that.
	maxParsedBytes = 4 << 20
	// patience is how long a machine waits for its config to be rendered: less than
	// the 10 s after which Ignition asks again.
	patience = 8 * time.Second
)

// Ref names an object.
type Ref = model.Ref

// Result is a template rendered and compiled for one machine. It is immutable.
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
	// Secrets are those for whose values it has placeholders.
	Secrets []template.SecretKey

	// stack are its layers; nil without layers.
	stack *model.Stack
}

// Options are the parts of a Cache.
type Options struct {
	// Inventory has the layers of templates; nil: there are none.
	Inventory *snapshot.Inventory
	// Render renders a template; nil: Template.Render.
	Render func(*compile.Template, *template.Facts) compile.Rendering
	// Secret returns the value of a key of a Secret in a namespace; nil: there are no Secrets.
	Secret func(namespace, name, key string) (string, error)
	// Server is the URL at which machines reach this server; "": it is not known.
	Server string
	// Registerer takes the metrics; nil: nothing is counted.
	Registerer prometheus.Registerer
}

// Cache renders templates, and caches the results. It is safe for concurrent use.
type Cache struct {
	opts     Options
	patience time.Duration
	slots    *slots
	metrics  *metrics
	flights  singleflight.Group
	// closing is canceled by Close.
	closing context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu               sync.Mutex
	hosts, strangers *results
	admission        admission
	parsed           *lru[string, *compile.Template]
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
		admission: admission{bySource: limit.Counts[netaddr.Source]{}},
		parsed:    newLRU[string, *compile.Template](maxParsedBytes, nil),
	}
	c.closing, c.end = context.WithCancel(context.Background())
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Close cancels the renderings that wait for a slot, and waits for the running ones. Their
// number is at most that of the slots, and the steps of a template are bounded.
func (c *Cache) Close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.running.Wait()
}

// Server returns the URL of this server in renderings.
func (c *Cache) Server() string { return c.opts.Server }

// Render implements decide.Renderer. Only results with placeholders for the values of Secrets are cached.
func (c *Cache) Render(config *model.Config, host *model.Host, facts *template.Facts, asker decide.Asker) (
	*model.Config, *fault.Error) {
	masked, failure := c.masked(config, host, facts, asker)
	if failure != nil || len(masked.Secrets) == 0 {
		return masked, failure
	}
	failing := "" // the newest version of the template, for whatever reason
	if e := c.entryOf(machineOf(config, host, facts)); e != nil && e.latest.Artifact == nil {
		failing = reasonOf(config, e.latest)
	}
	if facts == nil {
		facts = host.Facts()
	}
	if err := c.MissingSecret(config, masked.Secrets); err != nil {
		return nil, unrenderable(config, host, facts, err.Error())
	}
	if !asker.Reveal {
		return masked, nil
	}
	revealed, reason, failure := c.reveal(masked, config, host, facts, asker)
	if reason != "" {
		failure = unrenderable(config, host, facts, cmp.Or(failing, reason))
	}
	return revealed, failure
}

// masked renders a template with placeholders for the values of Secrets.
func (c *Cache) masked(config *model.Config, host *model.Host, facts *template.Facts, asker decide.Asker) (
	*model.Config, *fault.Error) {
	machine, task := machineOf(config, host, facts), c.Task(config)
	own := facts == nil // the host makes no claim that changes its facts
	if own {
		if answer := c.entryOf(machine).lastAnswer(&task, host); answer != nil {
			return answer, nil
		}
		facts = host.Facts()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	result, err := c.result(ctx, asker.Gone, &task, machine, facts, waiterOf(host, &asker))
	if err != nil {
		return nil, unrendered(config, host, facts, err)
	}
	e := c.entryOf(machine)
	switch {
	case result.Artifact != nil:
		served := servedConfig(config, result, false)
		if own && e != nil && e.latest == result {
			e.last.Store(&answer{config: config, host: host, served: served})
		}
		return served, nil
	case host != nil && e.lastGood() != nil:
		return servedConfig(config, e.good, true), nil
	}
	return nil, unrenderable(config, host, facts, reasonOf(config, result))
}

// reasonOf returns why a result has no artifact.
func reasonOf(config *model.Config, result *Result) string {
	if config.Confidential { // it quotes the source, and explain shows it to every viewer
		return "the reason is confidential"
	}
	return result.Message
}

// unrenderable returns the fault of a template whose rendering fails.
func unrenderable(config *model.Config, host *model.Host, facts *template.Facts, reason string) *fault.Error {
	return fault.New(fault.Unavailable, nameOf(config)+" cannot be rendered for "+describe(host, facts)+": "+reason)
}

// nameOf names a template in a sentence.
func nameOf(config *model.Config) string { return "config " + config.Ref.String() + ", a template," }

// waiter is for whom a rendering is, with the sources of a stranger.
type waiter struct {
	class   class
	sources []netaddr.Source
}

// waiterOf returns who asks.
func waiterOf(host *model.Host, asker *decide.Asker) waiter {
	switch {
	case asker.Last:
		return waiter{class: forViewer}
	case host == nil && !asker.Caller.Believed:
		return waiter{forStranger, sourcesOf(&asker.Caller)}
	}
	return waiter{class: forHost}
}

// unrendered returns the fault of a template that was not rendered.
func unrendered(config *model.Config, host *model.Host, facts *template.Facts, err error) *fault.Error {
	if errors.Is(err, errTooMany) {
		return fault.New(fault.Unavailable, nameOf(config)+" is not rendered for "+describe(host, facts)+
			" while too many machines wait that are no known hosts; ask again in a moment")
	}
	return fault.New(fault.Unavailable, nameOf(config)+" is yet to be rendered for "+describe(host, facts)+
		"; ask again in a moment")
}

// Earlier returns the last rendering with which a host can be served while the newest version of
// a template cannot be rendered for it; nil: there is none.
func (c *Cache) Earlier(config *model.Config, host *model.Host) *model.Config {
	if good := c.entryOf(machineOf(config, host, nil)).lastGood(); good != nil {
		return servedConfig(config, good, true)
	}
	return nil
}

// Failure returns why the newest version of a template cannot be rendered for a host; "": it can. known is false
// where it has not been rendered yet.
func (c *Cache) Failure(config *model.Config, host *model.Host) (reason string, known bool) {
	e := c.entryOf(machineOf(config, host, nil))
	if e == nil {
		return "", false
	}
	if e.latest.Artifact != nil {
		return "", true
	}
	if task := c.Task(config); e.version != task.Version(host) {
		return "", false
	}
	return reasonOf(config, e.latest), true
}

// RenderAhead renders a template for a host that has not asked for it. The result is nil
// where the cache was closed or ctx has ended.
func (c *Cache) RenderAhead(ctx context.Context, task *Task, host *model.Host) *Result {
	result, _ := c.result(ctx, nil, task, machineOf(task.config, host, nil), host.Facts(), waiter{class: forHost})
	return result
}

// errTooMany is the error for a stranger while the number of pending renderings for
// strangers is at its bound.
var errTooMany = errors.New("too many strangers wait")

// result returns a cached result, or that of a rendering, which callers for the same
// machine share, unless one is a viewer's, which waits for longer. It waits until ctx ends or
// gone is closed.
func (c *Cache) result(ctx context.Context, gone <-chan struct{}, task *Task, machine machine, facts *template.Facts,
	by waiter) (*Result, error) {
	version := task.version(facts)
	if result := c.cached(machine, version); result != nil {
		return result, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	flight := fmt.Sprintf("%#v %#v %t", machine, version, by.class == forViewer)
	for ctx.Err() == nil {
		done := c.flights.DoChan(flight, func() (any, error) {
			return c.render(ctx, task, machine, version, facts, by)
		})
		select {
		case outcome := <-done:
			if outcome.Err == nil {
				return outcome.Val.(*Result), nil
			}
			if errors.Is(outcome.Err, errTooMany) {
				return nil, errTooMany
			}
			// The caller that began the rendering has gone: the next one begins it again.
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

func (c *Cache) cached(machine machine, version Version) *Result {
	if e := c.entryOf(machine); e != nil && e.version == version {
		return e.latest
	}
	return nil
}

func (c *Cache) entryOf(machine machine) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resultsOf(machine).get(machine)
}

// render renders a template and caches the result.
func (c *Cache) render(ctx context.Context, task *Task, machine machine, version Version, facts *template.Facts,
	by waiter) (result *Result, err error) {
	if result := c.cached(machine, version); result != nil {
		return result, nil
	}
	return c.inSlot(ctx, task, facts, by, func(made *Result) { c.resultsOf(machine).add(machine, version, made) })
}

// inSlot renders a template once it has a slot, unless ctx ends before. keep is called with the result while
// the mutex is held.
func (c *Cache) inSlot(ctx context.Context, task *Task, facts *template.Facts, by waiter,
	keep func(*Result)) (result *Result, err error) {
	if err := c.begin(by.sources); err != nil {
		return nil, err
	}
	defer c.running.Done()
	pending := c.metrics.pending(by.class == forStranger)
	pending.Inc()
	err = c.slots.acquire(ctx, by.class, task.config.Namespace)
	pending.Dec()
	if err != nil {
		c.metrics.abandoned.Inc()
	} else {
		began := time.Now()
		result = c.execute(task, facts)
		c.metrics.rendered(result, time.Since(began))
		c.slots.release(by.class, task.config.Namespace)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admission.add(by.sources, -1)
	if result != nil {
		keep(result)
	}
	return result, err
}

// begin counts a rendering, unless the cache is closed or the number of renderings for
// strangers is at its bound.
func (c *Cache) begin(sources []netaddr.Source) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closing.Err(); err != nil {
		return err
	}
	if !c.admission.admit(sources) {
		c.metrics.refused.Inc()
		return errTooMany
	}
	c.running.Add(1)
	return nil
}

// describe names a machine in a sentence.
func describe(host *model.Host, facts *template.Facts) string {
	switch {
	case host != nil:
		return "host " + host.Ref.String()
	case facts.IP != "":
		return facts.IP + ", which is no known host"
	}
	return "a machine that is no known host"
}

// resultsOf returns the results of hosts or of strangers.
func (c *Cache) resultsOf(machine machine) *results {
	if machine.host == (Ref{}) {
		return c.strangers
	}
	return c.hosts
}

// servedConfig returns a config with a result in place of its template.
func servedConfig(config *model.Config, r *Result, stale bool) *model.Config {
	out := *config
	out.Template, out.Source = false, ""
	out.Artifact, out.Hash, out.ETag, out.IgnitionVersion = r.Artifact, r.Hash, r.ETag, r.IgnitionVersion
	out.Stale, out.Stack, out.Secrets = out.Stale || stale, r.stack, r.Secrets
	return &out
}
