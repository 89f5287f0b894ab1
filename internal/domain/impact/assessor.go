package impact

import (
	"context"
	"fmt"

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
// is left out only where no changed config matches it, before or after, and neither it, its image,
// its namespace nor a host with one of its addresses changes: then its answer is the same.
func (a *assessor) candidates(ctx context.Context) (found []candidate, total int, err error) {
	seen := map[snapshot.Ref]bool{}
	add := func(ref snapshot.Ref) {
		if !seen[ref] {
			seen[ref] = true
			found = append(found, candidate{a.before.view.Host(ref), a.after.view.Host(ref)})
		}
	}
	addWithSharers := func(h *snapshot.Host) {
		add(h.Ref)
		for _, s := range [...]*side{&a.before, &a.after} {
			if s.view.Shares(h) || s.view.Host(h.Ref) != h {
				for ref := range s.view.Sharers(h) {
					add(ref)
				}
			}
		}
	}
	total = a.before.view.HostCount()
	for ref := range a.changes.Hosts {
		was, is := a.before.view.Host(ref), a.after.view.Host(ref)
		if was != nil {
			addWithSharers(was)
		}
		if is != nil {
			addWithSharers(is)
		}
		if was == nil && is != nil {
			total++
		}
	}
	visited := 0
	for h := range a.before.view.AllHosts() {
		if visited++; visited%checkEvery == 0 && ctx.Err() != nil {
			return nil, 0, fmt.Errorf("the hosts were not searched in time: %w", ctx.Err())
		}
		if a.isConcerned(h) {
			addWithSharers(h)
		}
	}
	return found, total, nil
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
