package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// types are the types of config, each of which has its endpoint.
var types = [...]string{decide.Ignition, decide.Kickstart}

// assessor finds the hosts that a set of changes may concern, and has both sides of it.
type assessor struct {
	before, after side
	changes       *model.Changes
	// ofChanged are the types of the changed configs.
	ofChanged []string
	// old and now are the changed configs before and after, as indexes of them alone.
	old, now *match.Index
	// isolation is true where a namespace is an island on one side alone.
	isolation bool
	// images are the images that change, or whose logins need a changed Secret.
	images map[model.Ref]bool
}

// candidate is a host that the changes may concern, before and after; nil: there is no such host.
type candidate struct {
	before, after *model.Host
	// sharedBefore and sharedAfter are true where it shares an address.
	sharedBefore, sharedAfter bool
}

func (c *candidate) ref() model.Ref {
	if c.after != nil {
		return c.after.Ref
	}
	return c.before.Ref
}

func newAssessor(ctx context.Context, o *Options) *assessor {
	others := *o.Changes
	others.Configs = nil
	m := newMerger(o.Before.With(&others), o)
	m.writeAll(o.order(), o.Changes.Configs)
	ofSecrets := map[model.Ref]bool{}
	for _, ref := range append(o.Secrets.templates(o.Before), o.Secrets.templates(m.view)...) {
		m.concerned[ref], ofSecrets[ref] = true, true
	}
	var old, now []*model.Config
	matchAsBefore := true
	for ref := range m.concerned {
		was, is := o.Before.Config(ref), m.view.Config(ref)
		old, now = append(old, was), append(now, is)
		matchAsBefore = matchAsBefore && was.MatchesAs(is)
	}
	a := &assessor{
		changes: o.Changes, old: o.Before.Subset(old...), now: m.view.Subset(now...),
		isolation: !o.Before.Islands().Same(m.view.Islands()), images: map[model.Ref]bool{},
	}
	for ref := range o.Changes.Images {
		a.images[ref] = true
	}
	for _, ref := range append(o.Secrets.images(o.Before), o.Secrets.images(m.view)...) {
		a.images[ref] = true
	}
	// Machines boot by hosts, images with their logins, namespaces and islands alone.
	boots := len(o.Changes.Hosts)+len(a.images)+len(o.Changes.Namespaces) > 0 || a.isolation
	var concerned [len(types)]bool
	for i, typ := range types {
		if a.old.Has(typ) || a.now.Has(typ) {
			a.ofChanged, concerned[i] = append(a.ofChanged, typ), true
		}
		concerned[i] = concerned[i] || boots && (o.Before.HasConfigs(typ) || m.view.HasConfigs(typ))
	}
	options := sideOptions{concerned: concerned, boots: boots, ties: !matchAsBefore || boots}
	before, after := o.Secrets.vaults()
	ended := func() bool { return ctx.Err() != nil }
	a.before = newSide(o.Decider, o.Before, nil, options, ended, earlierOf(o.Decider), before)
	a.after = newSide(o.Decider, m.view, m.unknown, options, ended, a.before.lastRendering, after)
	a.before.renderings.changed, a.after.renderings.changed = ofSecrets, ofSecrets
	return a
}

// order returns the changed configs in the order in which they are written.
func (o *Options) order() []model.Ref {
	listed := slices.DeleteFunc(slices.Clone(o.Order), func(ref model.Ref) bool {
		_, changes := o.Changes.Configs[ref]
		return !changes
	})
	others := slices.SortedFunc(maps.Keys(o.Changes.Configs), model.Ref.Compare)
	return match.Unique(append(listed, others...))
}

// checkEvery is the number of hosts after which it is checked whether the time is over.
const checkEvery = 256

// candidates returns the hosts that the changes may concern, and the number of all hosts. A host
// is left out only where no changed config matches it, before or after, and neither it, its image
// nor its namespace changes, and the same holds for all hosts with which it shares an address,
// directly or through others: then its answer is the same.
func (a *assessor) candidates(ctx context.Context, pause func()) (found []candidate, total int, err error) {
	c := candidates{
		assessor: a, seen: map[model.Ref]bool{}, visited: [2]model.Addresses{{}, {}},
	}
	total = a.before.view.HostCount()
	for ref := range a.changes.Hosts {
		if a.before.view.Host(ref) == nil && a.after.view.Host(ref) != nil {
			total++
		}
		c.add(ref)
	}
	if len(a.ofChanged)+len(a.images)+len(a.changes.Namespaces) == 0 && !a.isolation {
		return c.found, total, nil
	}
	visited := 0
	for h := range a.before.view.AllHosts() {
		if visited++; visited%checkEvery == 0 {
			if pause(); ctx.Err() != nil {
				return nil, 0, fmt.Errorf("the hosts were not searched in time: %w", ctx.Err())
			}
		}
		if a.isConcerned(h) {
			c.addStored(h)
		}
	}
	return c.found, total, nil
}

// candidates collects hosts, each once, and those that share an address with them.
type candidates struct {
	*assessor
	found []candidate
	// seen are the hosts that change or share an address. No others are found twice.
	seen map[model.Ref]bool
	// visited are the addresses whose hosts were added, before and after the changes.
	visited [2]model.Addresses
}

// addStored adds a host that is found once among all.
func (c *candidates) addStored(h *model.Host) {
	if len(c.seen) > 0 && c.seen[h.Ref] {
		return
	}
	after := h
	if len(c.changes.Hosts) > 0 {
		after = c.after.view.Host(h.Ref)
	}
	if after == h && !c.before.view.Shares(h) && (len(c.changes.Hosts) == 0 || !c.after.view.Shares(h)) {
		c.found = append(c.found, candidate{before: h, after: h})
		return
	}
	c.add(h.Ref)
}

// add adds a host, and all that share an address with it, directly or through others.
func (c *candidates) add(ref model.Ref) {
	for next := []model.Ref{ref}; len(next) > 0; next = next[1:] {
		if c.seen[next[0]] {
			continue
		}
		c.seen[next[0]] = true
		one := candidate{before: c.before.view.Host(next[0]), after: c.after.view.Host(next[0])}
		if one.before == nil && one.after == nil {
			continue
		}
		one.sharedBefore, one.sharedAfter = c.before.view.Shares(one.before), c.after.view.Shares(one.after)
		c.found = append(c.found, one)
		for i, s := range [...]*side{&c.before, &c.after} {
			for _, h := range [...]*model.Host{one.before, one.after} {
				for _, other := range s.view.Sharers(h, c.visited[i]) {
					next = append(next, other.Ref)
				}
			}
		}
	}
}

// isConcerned reports whether the changes of other objects may concern a host.
func (a *assessor) isConcerned(h *model.Host) bool {
	if a.isolation {
		return true
	}
	if len(a.changes.Namespaces) > 0 {
		if _, changes := a.changes.Namespaces[h.Namespace]; changes {
			return true
		}
	}
	if len(a.images) > 0 && a.images[h.Image] {
		return true
	}
	return slices.ContainsFunc(a.ofChanged, func(typ string) bool {
		return a.before.decider.IsMatched(h, typ, a.old, a.now)
	})
}
