// Package rendering holds what templates come to for each host: rendered and
// compiled once for a template and what it can see of a host, kept in memory within
// bounds, and made before hosts ask, where that is possible.
package rendering

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

const (
	// maxKept bounds the renderings that are kept, in bytes: 10,000 of 5 KB and as
	// much again. Equal ones are kept once.
	maxKept = 128 << 20
	// maxStrange bounds those for machines that are no known hosts, in bytes: they
	// take no room from the hosts'.
	maxStrange = 16 << 20
	// maxParsed bounds the templates that are kept parsed, in bytes of their sources;
	// parsed they take some twenty times that.
	maxParsed = 4 << 20
	// patience is how long a machine waits for its config to be rendered: less than
	// the 10 s after which Ignition asks anew.
	patience = 8 * time.Second
)

// Ref names an object.
type Ref = snapshot.Ref

// Rendered is what a template comes to for one host. It is never changed.
type Rendered struct {
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

	// stack is what it was merged over; nil without layers.
	stack *snapshot.Stack
}

// Cache is the renderings. It is safe for concurrent use.
type Cache struct {
	inv      *snapshot.Inventory
	render   func(*compile.Template, *template.Facts) compile.Rendering
	patience time.Duration
	slots    *slots
	metrics  *metrics
	stop     chan struct{}
	jobs     sync.WaitGroup

	mu   sync.Mutex
	kept kept
	// strange are the renderings for machines that are no known hosts.
	strange kept
	calls   map[key]*call
	parsed  parsed
	closed  bool
}

// key is all that a rendering depends on: the template and what it can see of the
// host. The revision of the host is no part of it, which every boot changes.
type key struct {
	// source is that of a Task, format the language of what the template renders.
	source, format string
	facts          template.Key
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

// New returns an empty Cache.
func New(opts Options) *Cache {
	c := &Cache{
		inv:      opts.Inventory,
		render:   opts.Render,
		patience: patience,
		slots:    newSlots(runtime.GOMAXPROCS(0)),
		stop:     make(chan struct{}),
		kept:     newKept(maxKept),
		strange:  newKept(maxStrange),
		calls:    map[key]*call{},
	}
	if c.render == nil {
		c.render = (*compile.Template).Render
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Close ends what waits to be rendered, and waits for what is being rendered: no more
// than there are slots, and none takes longer than a template may.
func (c *Cache) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.stop)
	}
	c.mu.Unlock()
	c.jobs.Wait()
}

func (c *Cache) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// Busy tells whether anything is being rendered.
func (c *Cache) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// Render implements boot.Renderer.
func (c *Cache) Render(config *snapshot.Config, host *snapshot.Host, facts *template.Facts, asker decide.Asker) (
	*snapshot.Config, *fault.Error) {
	who, job := ownerOf(config, host), c.Task(config)
	own := facts == nil
	if !own && host != nil {
		who.role = facts.Labels[match.RoleLabel]
	}
	var r *Rendered
	if own {
		var made *snapshot.Config
		if r, made = c.unchanged(who, &job, host); made != nil {
			return made, nil
		}
		if r == nil {
			facts = host.Facts()
		}
	}
	if r == nil {
		call := c.begin(&job, who, facts, rankOf(host, &asker.Caller), &asker.Caller)
		if call == nil {
			return nil, fault.New(fault.Unavailable, "config "+config.Ref.String()+", a template, is not rendered for "+
				describe(host, facts)+" while too many machines wait that are no known hosts; ask again in a moment")
		}
		late := time.NewTimer(c.patience)
		defer late.Stop()
		select {
		case <-call.done:
			r = call.rendered
		case <-asker.Gone:
		case <-late.C:
		}
		c.leave(call)
		if r != nil && own {
			c.note(who, &job, host, job.key(facts))
		}
	}
	if r != nil && r.Artifact != nil {
		return with(config, r, false), nil
	}
	name := "config " + config.Ref.String() + ", a template,"
	if r == nil {
		return nil, fault.New(fault.Unavailable, name+" is yet to be rendered for "+describe(host, facts)+"; ask again in a moment")
	}
	if last := c.last(who); last != nil {
		return with(config, last, true), nil
	}
	return nil, fault.New(fault.Unavailable, name+" cannot be rendered for "+describe(host, facts)+": "+r.Message)
}

// RenderAhead renders a template for a host that has not asked for it yet. The result
// is nil where the cache was closed or ctx has ended.
func (c *Cache) RenderAhead(ctx context.Context, job *Task, host *snapshot.Host) *Rendered {
	call := c.begin(job, ownerOf(job.config, host), host.Facts(), ahead, nil)
	defer c.leave(call)
	select {
	case <-call.done:
		return call.rendered
	case <-ctx.Done():
		return nil
	}
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

// with gives a config with what was rendered in the place of its template.
func with(config *snapshot.Config, r *Rendered, stale bool) *snapshot.Config {
	out := *config
	out.Template, out.Source = false, ""
	out.Artifact, out.Hash, out.ETag, out.IgnitionVersion = r.Artifact, r.Hash, r.ETag, r.IgnitionVersion
	out.Stale, out.Stack = out.Stale || stale, r.stack
	return &out
}

// ownerOf is zero where the machine is no known host: nothing is remembered of it.
func ownerOf(config *snapshot.Config, host *snapshot.Host) owner {
	if host == nil {
		return owner{}
	}
	return owner{config: config.Ref, host: host.Ref, configUID: config.UID, hostUID: host.UID, typ: config.Type}
}

// unchanged gives the config for a host that is as it was when it last asked, or the
// rendering that makes none.
func (c *Cache) unchanged(who owner, job *Task, host *snapshot.Host) (*Rendered, *snapshot.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.unchanged(who, pair{job.config, host}, job.Source)
}

func (c *Cache) note(who owner, job *Task, host *snapshot.Host, k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.note(who, pair{job.config, host}, k)
}

// last gives the last good rendering for a host.
func (c *Cache) last(who owner) *Rendered {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.last(who)
}

// make renders and compiles. A fault in what does is one of this rendering.
func (c *Cache) make(job *Task, facts *template.Facts) (r *Rendered) {
	defer func() {
		if failure := recover(); failure != nil {
			r = &Rendered{Message: fmt.Sprintf("rendering it failed: %.200v; please report this", failure)}
		}
	}()
	if job.Failure != "" {
		return &Rendered{Message: job.Failure}
	}
	t, failed := c.template(job.config)
	if t == nil {
		return &Rendered{Message: failed}
	}
	made := c.render(t, facts)
	if made.Artifact == nil {
		return &Rendered{Message: made.Message()}
	}
	a := made.Artifact
	r = &Rendered{Artifact: a.Bytes, Hash: a.Hash, IgnitionVersion: a.IgnitionVersion}
	if job.config.Stack != nil {
		r = job.lay(a)
	}
	switch {
	case r.Message != "":
		return r
	case len(r.Artifact) == 0:
		return &Rendered{Message: "the rendered text is empty"}
	}
	r.ETag = `"` + r.Hash + `"`
	r.Warnings = append(made.Warnings(), r.Warnings...)
	return r
}

// template gives a config's template, parsed.
func (c *Cache) template(config *snapshot.Config) (*compile.Template, string) {
	k := config.Format + " " + config.Installer + " " + config.Hash
	c.mu.Lock()
	t := c.parsed.find(k)
	c.mu.Unlock()
	if t != nil {
		return t, ""
	}
	t, found := config.ParseTemplate()
	if t == nil {
		return nil, found.Summary()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parsed.put(strings.Clone(k), t, len(config.Artifact))
	return t, ""
}
