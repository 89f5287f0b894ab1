package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// types are the types of config, each of which has its endpoint.
var types = [...]string{decide.Ignition, decide.Kickstart}

// assessor finds the hosts that a set of changes may concern, and has both sides of it.
type assessor struct {
	before, after side
	changes       *snapshot.Changes
	// old and now are the changed configs before and after, as indexes of them alone.
	old, now *match.Index
}

// candidate is a host that the changes may concern, before and after; nil: there is no such host.
type candidate struct{ before, after *snapshot.Host }

func (c *candidate) ref() snapshot.Ref {
	if c.after != nil {
		return c.after.Ref
	}
	return c.before.Ref
}

func newAssessor(ctx context.Context, o *Options) *assessor {
	m := newMerger(o.Before.With(o.Changes), o.Pending)
	m.merge(ctx, o.Changes.Configs)
	var old, now []*snapshot.Config
	matchAsBefore := true
	for ref := range m.concerned {
		was, is := o.Before.Config(ref), m.view.Config(ref)
		old, now = append(old, was), append(now, is)
		matchAsBefore = matchAsBefore && was.MatchesAs(is)
	}
	a := &assessor{changes: o.Changes, old: snapshot.Subset(old), now: snapshot.Subset(now)}
	// Machines boot by hosts, images and namespaces alone.
	boots := len(o.Changes.Hosts)+len(o.Changes.Images)+len(o.Changes.Namespaces) > 0
	var concerned [len(types)]bool
	for i, typ := range types {
		concerned[i] = a.isOfChanged(typ) || boots && (o.Before.HasConfigs(typ) || m.view.HasConfigs(typ))
	}
	options := sideOptions{concerned: concerned, boots: boots, ties: !matchAsBefore || boots}
	a.before = newSide(o.Decider, o.Before, nil, options, liveRenderings(o.Decider))
	a.after = newSide(o.Decider, m.view, m.unknown, options, a.before.lastRendering)
	return a
}

// isOfChanged reports whether one of the changed configs has a type.
func (a *assessor) isOfChanged(typ string) bool { return a.old.Has(typ) || a.now.Has(typ) }

// checkEvery is the number of hosts after which it is checked whether the time is over.
const checkEvery = 256

// candidates returns the hosts that the changes may concern, and the number of all hosts. A host
// is left out only where no changed config matches it, before or after, and neither it, its image
// nor its namespace changes, and the same holds for all hosts with which it shares an address,
// directly or through others: then its answer is the same.
func (a *assessor) candidates(ctx context.Context) (found []candidate, total int, err error) {
	c := candidates{assessor: a, seen: map[snapshot.Ref]bool{}}
	total = a.before.view.HostCount()
	for ref := range a.changes.Hosts {
		if a.before.view.Host(ref) == nil && a.after.view.Host(ref) != nil {
			total++
		}
		c.add(ref)
	}
	visited := 0
	for h := range a.before.view.AllHosts() {
		if visited++; visited%checkEvery == 0 && ctx.Err() != nil {
			return nil, 0, fmt.Errorf("the hosts were not searched in time: %w", ctx.Err())
		}
		if a.isConcerned(h) {
			c.add(h.Ref)
		}
	}
	return c.found, total, nil
}

// candidates collects hosts, each once, and those that share an address with them.
type candidates struct {
	*assessor
	found []candidate
	seen  map[snapshot.Ref]bool
}

func (c *candidates) add(ref snapshot.Ref) {
	for next := []snapshot.Ref{ref}; len(next) > 0; next = next[1:] {
		if c.seen[next[0]] {
			continue
		}
		c.seen[next[0]] = true
		one := candidate{c.before.view.Host(next[0]), c.after.view.Host(next[0])}
		if one.before == nil && one.after == nil {
			continue
		}
		c.found = append(c.found, one)
		for _, s := range [...]*side{&c.before, &c.after} {
			for _, h := range [...]*snapshot.Host{one.before, one.after} {
				if h != nil && (one.before != one.after || s.view.Shares(h)) {
					next = slices.AppendSeq(next, maps.Keys(s.view.Sharers(h)))
				}
			}
		}
	}
}

// isConcerned reports whether the changes of other objects may concern a host.
func (a *assessor) isConcerned(h *snapshot.Host) bool {
	if _, changes := a.changes.Namespaces[h.Namespace]; changes {
		return true
	}
	if _, changes := a.changes.Images[h.Image]; changes {
		return true
	}
	for _, typ := range types {
		if a.isOfChanged(typ) && a.before.decider.IsMatched(h, typ, a.old, a.now) {
			return true
		}
	}
	return false
}
