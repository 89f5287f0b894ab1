package template

import (
	"context"
	"slices"
	"time"

	"glowplug/internal/domain/decide"
	domaintemplate "glowplug/internal/domain/template"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

// roster is the hosts of a template: those that are given it when they ask and
// claim nothing. The Follower's lock guards it.
type roster struct {
	config *snapshot.Config
	// task is the template over its layers as they are.
	task  rendering.Task
	hosts map[Ref]*result
	// todo are hosts that are yet to be rendered for; it may have some that no
	// longer are.
	todo []Ref
	// pending and failed count the hosts.
	pending, failed int
	gone            bool
	// queued is true while it has its turns, dirty while there is something to say
	// in its status.
	queued, dirty bool
	// written is when its status was last written.
	written time.Time
}

// result is how rendering has gone for a host.
type result struct {
	facts domaintemplate.Key
	state state
	// queued is true while the host is in todo.
	queued  bool
	message string
	version string
	// warnings are of few.
	warnings []string
}

type state uint8

const (
	pending state = iota
	ready
	failed
)

// place is the rosters that a host stands in: one for each endpoint.
type place struct{ ignition, kickstart *roster }

// endpoints are the types that a host may ask for.
var endpoints = [...]string{decide.Ignition, decide.Kickstart}

// lookAtAll finds out which hosts all templates are for.
func (f *Follower) lookAtAll() {
	view := f.opts.Inventory.View()
	templates, hosts := view.Templates(), []*snapshot.Host(nil)
	if len(templates) > 0 {
		hosts = view.Hosts()
	}
	view.End()

	tasks := make([]rendering.Task, len(templates))
	for i, c := range templates {
		tasks[i] = f.opts.Cache.Task(c)
	}
	f.mu.Lock()
	there := make(map[Ref]bool, len(templates))
	for i, c := range templates {
		there[c.Ref] = true
		f.adopt(c, tasks[i])
	}
	for ref, r := range f.rosters {
		if !there[ref] {
			r.gone = true
			delete(f.rosters, ref)
		}
	}
	known := make(map[Ref]struct{}, len(f.places))
	for ref := range f.places {
		known[ref] = struct{}{}
	}
	f.mu.Unlock()
	if len(templates) == 0 {
		f.mu.Lock()
		clear(f.places)
		f.mu.Unlock()
		f.active.Store(false)
		// A template that came meanwhile is news, and has made it active again.
		view := f.opts.Inventory.View()
		came := len(view.Templates()) > 0
		view.End()
		if came {
			f.active.Store(true)
		}
		return
	}
	for batch := range slices.Chunk(hosts, lookStride) {
		refs := make([]Ref, len(batch))
		for i, h := range batch {
			refs[i] = h.Ref
			delete(known, h.Ref)
		}
		f.lookAtSome(refs)
	}
	gone := make([]Ref, 0, len(known))
	for ref := range known {
		gone = append(gone, ref)
	}
	f.lookAtSome(gone)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rosters {
		f.due(r) // also of a template without hosts
	}
}

// adopt takes a template as it is now.
func (f *Follower) adopt(c *snapshot.Config, t rendering.Task) {
	r := f.rosters[c.Ref]
	if r != nil && r.config.UID != c.UID {
		r.gone = true
		r = nil
	}
	if r == nil {
		r = &roster{config: c, task: t, hosts: map[Ref]*result{}, dirty: true}
		f.rosters[c.Ref] = r
		return
	}
	was, before := r.config, r.task.Source
	r.config, r.task = c, t
	r.dirty = r.dirty || was.Generation != c.Generation || before != t.Source
	if before != t.Source || was.Format != c.Format {
		for ref, res := range r.hosts {
			r.again(ref, res)
		}
		f.enqueue(r)
	}
}

// again makes a host be rendered for anew.
func (r *roster) again(ref Ref, res *result) {
	if res.state == failed {
		r.failed--
	}
	if res.state != pending {
		r.pending++
	}
	if !res.queued {
		r.todo = append(r.todo, ref)
	}
	*res = result{facts: res.facts, queued: true}
}

// lookAt finds out which templates some hosts are given.
func (f *Follower) lookAt(hosts map[Ref]struct{}) {
	refs := make([]Ref, 0, len(hosts))
	for ref := range hosts {
		refs = append(refs, ref)
	}
	for batch := range slices.Chunk(refs, lookStride) {
		f.lookAtSome(batch)
	}
}

// assignment is what a host is given, and what of it templates can see.
type assignment struct {
	host    *snapshot.Host
	configs [len(endpoints)]*snapshot.Config
	facts   domaintemplate.Key
}

func (f *Follower) lookAtSome(refs []Ref) {
	found := make([]assignment, len(refs))
	room := &decide.Decision{}
	view := f.opts.Inventory.View()
	for i, ref := range refs {
		a := &found[i]
		if a.host = view.Host(ref); a.host == nil {
			continue
		}
		for j, typ := range endpoints {
			if c := f.opts.Decider.Assigned(view, a.host, typ, room); isTemplate(c) {
				a.configs[j] = c
			}
		}
	}
	view.End()
	for i := range found {
		if a := &found[i]; a.configs != [len(endpoints)]*snapshot.Config{} {
			a.facts = a.host.Facts().Key()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, ref := range refs {
		f.assign(ref, &found[i])
	}
}

// assign puts a host where it stands now.
func (f *Follower) assign(ref Ref, a *assignment) {
	was := f.places[ref]
	var is place
	for j, to := range [...]**roster{&is.ignition, &is.kickstart} {
		c := a.configs[j]
		if c == nil {
			continue
		}
		r := f.rosters[c.Ref]
		if r == nil || r.config.UID != c.UID {
			continue // it is news of its own
		}
		*to = r
		res := r.hosts[ref]
		switch {
		case res == nil:
			r.hosts[ref] = &result{facts: a.facts, queued: true}
			r.pending++
			r.todo = append(r.todo, ref)
		case res.facts != a.facts:
			res.facts = a.facts
			r.again(ref, res)
		default:
			continue
		}
		f.enqueue(r)
	}
	for _, r := range [...]*roster{was.ignition, was.kickstart} {
		if r != nil && r != is.ignition && r != is.kickstart {
			r.leave(ref)
			f.due(r)
		}
	}
	if is == (place{}) {
		delete(f.places, ref)
	} else {
		f.places[ref] = is
	}
}

func (r *roster) leave(ref Ref) {
	res := r.hosts[ref]
	if res == nil {
		return
	}
	switch res.state {
	case pending:
		r.pending--
	case failed:
		r.failed--
	}
	delete(r.hosts, ref)
	r.dirty = true
}

// enqueue gives a roster its turns to be rendered for.
func (f *Follower) enqueue(r *roster) {
	if len(r.todo) > 0 && !r.queued {
		r.queued = true
		f.turns = append(f.turns, r)
		f.queue.AddAfter(r.ref(), f.gaps.progress)
		f.work.Broadcast()
	}
}

func (r *roster) ref() Ref { return Ref{Namespace: r.config.Namespace, Name: r.config.Name} }

// due makes the status of a template be written, where nothing is left to render.
func (f *Follower) due(r *roster) {
	if !r.gone && r.dirty && r.pending == 0 {
		f.queue.AddAfter(r.ref(), f.gaps.settle)
	}
}

// renderNext renders a template for one host; it tells whether there may be more.
func (f *Follower) renderNext(ctx context.Context) bool {
	f.mu.Lock()
	for len(f.turns) == 0 && !f.closed {
		f.work.Wait()
	}
	if f.closed {
		f.mu.Unlock()
		return false
	}
	r := f.turns[0]
	f.turns = f.turns[1:]
	ref := r.todo[0]
	if r.todo = r.todo[1:]; len(r.todo) > 0 && !r.gone {
		f.turns = append(f.turns, r)
	} else {
		r.queued = false
	}
	res := r.hosts[ref]
	if res != nil {
		res.queued = false // also where it was settled meanwhile: it is in todo no longer
	}
	if r.gone || res == nil || res.state != pending {
		f.mu.Unlock()
		return true
	}
	job, facts := r.task, res.facts
	f.mu.Unlock()

	view := f.opts.Inventory.View()
	host := view.Host(ref)
	view.End()
	if host == nil {
		// Its end is news; where it is back before that is looked at, it looks as if
		// nothing had happened.
		f.mu.Lock()
		r.leave(ref)
		f.news.host(ref)
		f.mu.Unlock()
		f.nudge()
		return true
	}
	seen := host.Facts()
	made := f.opts.Cache.RenderAhead(ctx, &job, host)

	f.mu.Lock()
	defer f.mu.Unlock()
	res = r.hosts[ref]
	switch {
	case made == nil, r.gone, res == nil, res.state != pending:
		return true
	case res.facts != facts || r.task.Source != job.Source || seen.Key() != facts:
		return true // another host or template by now, which is news and makes it be done anew
	}
	r.settle(res, made)
	f.due(r)
	return true
}

// settle notes what rendering has come to.
func (r *roster) settle(res *result, made *rendering.Result) {
	r.pending--
	r.dirty = true
	res.state, res.version, res.warnings = ready, made.IgnitionVersion, made.Warnings
	if made.Artifact == nil {
		res.state, res.message = failed, made.Message
		r.failed++
	}
}
