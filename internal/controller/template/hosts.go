package template

import (
	"context"
	"maps"
	"slices"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/rendering"
)

// endpoints are the types that a host may ask for.
var endpoints = [...]string{decide.Ignition, decide.Kickstart}

// assignment has the template of a host for each endpoint, or nil.
type assignment [len(endpoints)]*state

// state is a template and the outcomes for its hosts, which are those that receive it when
// their request has no claims. Controller.mu guards it.
type state struct {
	config *model.Config
	// task is the template with its layers.
	task  rendering.Task
	hosts map[Ref]*outcome
	// pending is the number of hosts without a result.
	pending int
	// dirty is true where the status may have changed since the last write, at written.
	dirty   bool
	written time.Time
}

// outcome is the result of rendering a version for a host.
type outcome struct {
	version rendering.Version
	pending bool
	failed  bool
	message string
	// ignitionVersion is that of the artifact. Few hosts have warnings.
	ignitionVersion string
	warnings        []string
	// secrets are those whose values the machine receives.
	secrets []template.SecretKey
}

// job is a rendering for a host.
type job struct {
	state   *state
	host    *model.Host
	task    rendering.Task
	version rendering.Version
}

// reconcileHost assigns a host its templates, and renders those without a result for it.
func (c *Controller) reconcileHost(ctx context.Context, key Ref) (time.Duration, error) {
	if key == everyHost {
		return c.reconcileAll(ctx)
	}
	for _, j := range c.assign([]Ref{key}) {
		result := c.opts.Cache.RenderAhead(ctx, &j.task, j.host)
		if result == nil {
			return 0, ctx.Err() // the server stops
		}
		c.record(&j, result)
	}
	return 0, nil
}

// reconcileAll updates the templates, assigns all hosts theirs, and queues the hosts without
// a result with low priority: changed hosts go first.
func (c *Controller) reconcileAll(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if wait := c.nextPass.Sub(began); wait > 0 {
		return wait, nil
	}
	if stats := c.opts.Inventory.Stats(); !stats.Hosts.Loaded || !stats.Configs.Loaded || !stats.Images.Loaded {
		return 0, nil // each load is a change of its own
	}
	if c.awaitsSecrets() {
		return 0, nil // as is that of the Secrets
	}
	refs := c.updateTemplates()
	for batch := range slices.Chunk(refs, hostsPerView) {
		for _, j := range c.assign(batch) {
			c.hosts.EnqueueLow(j.host.Ref)
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.templates {
		c.enqueueStatusLocked(s) // also of a template without hosts
	}
	c.nextPass = time.Now().Add((passShare - 1) * time.Since(began))
	return 0, nil
}

// updateTemplates updates the states of all templates, and returns the hosts for assign: all
// hosts, and deleted ones that had a template.
func (c *Controller) updateTemplates() []Ref {
	view := c.opts.Inventory.View()
	templates := view.Templates()
	var hosts []*model.Host
	if len(templates) > 0 {
		hosts = view.Hosts()
	}
	tasks := make([]rendering.Task, len(templates))
	for i, config := range templates {
		tasks[i] = c.opts.Cache.Task(config)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.templates
	c.templates = make(map[Ref]*state, len(templates))
	for i, config := range templates {
		c.templates[config.Ref] = c.updatedState(before[config.Ref], config, tasks[i])
	}
	refs := maps.Clone(c.byHost)
	for _, h := range hosts {
		refs[h.Ref] = assignment{}
	}
	return slices.Collect(maps.Keys(refs))
}

// updatedState returns the state of a template; s is the previous one, or nil. All hosts
// become pending where the template or its layers have changed.
func (c *Controller) updatedState(s *state, config *model.Config, task rendering.Task) *state {
	if s == nil || s.config.UID != config.UID {
		return &state{config: config, task: task, hosts: map[Ref]*outcome{}, dirty: true}
	}
	changed := s.task.Source != task.Source || s.config.Format != config.Format
	s.dirty = s.dirty || changed || s.config.Generation != config.Generation
	s.config, s.task = config, task
	if changed {
		for _, o := range s.hosts {
			*o = outcome{pending: true}
		}
		c.addPendingLocked(s, len(s.hosts)-s.pending)
	}
	return s
}

// assign updates the templates of hosts, and returns the missing renderings.
func (c *Controller) assign(refs []Ref) (jobs []job) {
	hosts := make([]*model.Host, len(refs))
	configs := make([][len(endpoints)]*model.Config, len(refs))
	view := c.opts.Inventory.View()
	for i, ref := range refs {
		if hosts[i] = view.Host(ref); hosts[i] != nil {
			configs[i] = assigned(c.opts.Decider, view, hosts[i])
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, ref := range refs {
		jobs = append(jobs, c.assignLocked(ref, hosts[i], configs[i])...)
	}
	return jobs
}

// assigned returns, for each endpoint, the template that a host receives when its request has
// no claims, or nil.
func assigned(
	decider *decide.Decider, view model.View, host *model.Host,
) (found [len(endpoints)]*model.Config) {
	for i, typ := range endpoints {
		if config := decider.Assigned(view, host, typ); isTemplate(config) {
			found[i] = config
		}
	}
	return found
}

func (c *Controller) assignLocked(ref Ref, host *model.Host, configs [len(endpoints)]*model.Config) (jobs []job) {
	before, now := c.byHost[ref], assignment{}
	for i, config := range configs {
		if config == nil {
			continue
		}
		s := c.templates[config.Ref]
		if s == nil || s.config.UID != config.UID {
			continue // a pass is queued, which updates the templates
		}
		now[i] = s
		version := s.task.Version(host)
		o := s.hosts[ref]
		if o == nil {
			o = &outcome{}
			s.hosts[ref] = o
		}
		if o.version != version {
			if !o.pending {
				c.addPendingLocked(s, 1)
			}
			*o = outcome{version: version, pending: true}
		}
		if o.pending {
			jobs = append(jobs, job{s, host, s.task, version})
		}
	}
	for _, s := range before {
		if s != nil && !slices.Contains(now[:], s) {
			c.removeLocked(s, ref)
		}
	}
	if now == (assignment{}) {
		delete(c.byHost, ref)
	} else {
		c.byHost[ref] = now
	}
	return jobs
}

// removeLocked removes a host from a template.
func (c *Controller) removeLocked(s *state, ref Ref) {
	if s.hosts[ref].pending {
		s.pending--
	}
	delete(s.hosts, ref)
	s.dirty = true
	c.enqueueStatusLocked(s)
}

// record sets the result for a host, unless the template or the host has changed meanwhile.
func (c *Controller) record(j *job, result *rendering.Result) {
	missing := c.opts.Cache.MissingSecret(j.state.config, result.Secrets)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := j.state.hosts[j.host.Ref]
	if o == nil || !o.pending || o.version != j.version {
		return
	}
	*o = outcome{
		version: j.version, ignitionVersion: result.IgnitionVersion, warnings: result.Warnings, secrets: result.Secrets,
	}
	switch {
	case result.Artifact == nil:
		o.failed, o.message = true, result.Message
	case missing != nil:
		o.failed, o.message = true, missing.Error()
	}
	if c.opts.Rendered != nil && (o.failed || j.host.Unmet&model.ConfigMatched != 0) {
		c.opts.Rendered(j.host.Ref)
	}
	j.state.pending--
	j.state.dirty = true
	c.enqueueStatusLocked(j.state)
}

// addPendingLocked adds to the number of pending hosts. If they stay pending for long, the
// status shows the progress.
func (c *Controller) addPendingLocked(s *state, n int) {
	if s.pending == 0 && n > 0 {
		c.statuses.EnqueueAfter(s.config.Ref, c.pauses.progress)
	}
	s.pending += n
}

// enqueueStatusLocked queues the status of a template, unless hosts are pending.
func (c *Controller) enqueueStatusLocked(s *state) {
	if s.dirty && s.pending == 0 && c.templates[s.config.Ref] == s {
		c.statuses.EnqueueAfter(s.config.Ref, c.pauses.coalesce)
	}
}
