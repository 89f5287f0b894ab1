package impact

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

const (
	// maxNames bounds the hosts that are named of a group, and maxPairs its answers.
	maxNames = 10
	maxPairs = 5
	// maxGroups bounds the groups of an impact.
	maxGroups = 100
	// maxShown bounds the answers whose bytes are compared.
	maxShown = 1000
	notShown = "(the bytes were not compared: too many answers change at once)"
)

// groups collects the hosts by what changes for them.
type groups struct {
	*assessor
	same map[change]*alike
	// mayShow is Options.MayShow.
	mayShow func(model.View, *model.Config) bool
}

// change is the outcomes before and after.
type change struct {
	before, after outcome
	// readdressed is true where the machine is recognised by something else.
	readdressed bool
}

// alike are the hosts with the same change.
type alike struct {
	change
	effects []Effect
	first   candidate
	refs    []model.Ref
}

func newGroups(a *assessor) *groups {
	return &groups{assessor: a, same: map[change]*alike{}}
}

// add adds a host, unless nothing changes for it.
func (g *groups) add(c *candidate) {
	before, after := g.before.outcome(c.before, c.sharedBefore), g.after.outcome(c.after, c.sharedAfter)
	g.after.findTies(&after, c.after)
	if after.tied != (outcome{}.tied) {
		g.before.findTies(&before, c.before)
	}
	key := change{before, after, c.isReaddressed()}
	one := g.same[key]
	if one == nil {
		one = &alike{change: key, effects: key.effects(), first: *c}
		g.same[key] = one
	}
	if len(one.effects) > 0 {
		one.refs = append(one.refs, c.ref())
	}
}

// result returns the groups, the worst first. With show the hosts in one group also have the same
// difference of the bytes.
func (g *groups) result(ctx context.Context, show bool) *Impact {
	var all []*alike
	result := &Impact{Counts: map[Effect]int{}, Groups: []Group{}}
	for _, one := range g.same {
		if len(one.effects) == 0 {
			continue
		}
		slices.SortFunc(one.refs, model.Ref.Compare)
		all = append(all, one)
		result.Changed += len(one.refs)
		for _, e := range one.effects {
			result.Counts[e] += len(one.refs)
		}
	}
	slices.SortFunc(all, func(a, b *alike) int {
		return cmp.Or(cmp.Compare(len(b.refs), len(a.refs)), a.refs[0].Compare(b.refs[0]))
	})
	byKey := map[string]*Group{}
	var order []*Group
	for i, one := range all {
		difference := ""
		switch {
		case !show:
		case i >= maxShown || ctx.Err() != nil:
			difference = notShown
		default:
			difference = g.difference(one)
		}
		key := fmt.Sprint(one.effects, "\n", difference)
		group := byKey[key]
		if group == nil {
			group = &Group{Effects: one.effects, Difference: difference}
			byKey[key] = group
			order = append(order, group)
		}
		group.refs = append(group.refs, one.refs...)
		if len(group.Answers) < maxPairs {
			group.Answers = append(group.Answers, g.pair(one))
		} else {
			group.MoreAnswers++
		}
	}
	result.addGroups(order)
	return result
}

// addGroups adds the groups, the worst first.
func (i *Impact) addGroups(order []*Group) {
	for _, group := range order {
		slices.SortFunc(group.refs, model.Ref.Compare)
		group.Hosts = len(group.refs)
		group.Names = explain.Texts(group.refs[:min(maxNames, len(group.refs))])
	}
	slices.SortStableFunc(order, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(rank(a.Effects[0]), rank(b.Effects[0])), cmp.Compare(b.Hosts, a.Hosts),
			strings.Compare(a.Names[0], b.Names[0]))
	})
	for n, group := range order {
		if n >= maxGroups {
			i.More += group.Hosts
			continue
		}
		i.Groups = append(i.Groups, *group)
	}
}

func rank(e Effect) int { return slices.Index(effects, e) }

// isReaddressed reports whether the machine of a host is recognised by something else than before.
func (c *candidate) isReaddressed() bool {
	b, a := c.before, c.after
	return b != a && b != nil && a != nil && !(b.SameMACs(a) && slices.Equal(b.IPs, a.IPs) &&
		slices.Equal(b.BootSources, a.BootSources) && slices.Equal(b.Hostnames, a.Hostnames) && b.UUID == a.UUID)
}

// effects returns what differs, the worst first; nil: nothing.
func (c *change) effects() []Effect {
	before, after := &c.before, &c.after
	if *before == *after && !c.readdressed {
		return nil
	}
	if !after.exists {
		return []Effect{HostDeleted}
	}
	found := map[Effect]bool{
		HostAdded: !before.exists, Ambiguous: after.shares && !before.shares, AddressChanged: c.readdressed,
		Unrecognised: !after.recognised && before.recognised,
	}
	maps.DeleteFunc(found, func(_ Effect, holds bool) bool { return !holds })
	for i := range types {
		if after.tied[i] && !before.tied[i] {
			found[Ambiguous] = true
		}
		after.configs[i].effectOf(&before.configs[i], before.exists, found)
	}
	c.addTypes(found)
	after.boot.effectOf(&before.boot, before.exists, found)
	return slices.SortedFunc(maps.Keys(found), func(a, b Effect) int { return cmp.Compare(rank(a), rank(b)) })
}

// addTypes adds whether a host has lost its config of a type, or has one of a type for the first time.
func (c *change) addTypes(found map[Effect]bool) {
	lost, gained := false, false
	for i := range types {
		was, is := c.before.configs[i].config != model.Ref{}, c.after.configs[i].config != model.Ref{}
		lost, gained = lost || was && !is, gained || is && !was
	}
	switch {
	case lost && gained: // a config of another type
		found[ConfigChanged] = true
	case lost:
		found[Unmatched] = true
	case gained && c.before.exists:
		found[Mended] = true
	}
}

// effectOf adds what differs between the answer to a request for a config and the one before.
func (s *served) effectOf(was *served, existed bool, found map[Effect]bool) {
	if s.unknown {
		if *s != *was {
			found[Unknown] = true
		}
		return
	}
	s.availability(was, found)
	isSame := s.config == was.config
	switch {
	case !existed || s.config == (model.Ref{}) || was.config == (model.Ref{}):
	case !isSame:
		found[ConfigChanged] = true
	case s.status == ok && was.status == ok && (s.content() != was.content() || s.version != was.version):
		found[ContentChanged] = true
	}
}

// availability adds whether the config is not served any more, is served again, or is stale.
func (s *served) availability(was *served, found map[Effect]bool) {
	isSame := s.config == was.config
	switch {
	case s.config == (model.Ref{}):
	case s.status == ok:
		if was.status != ok && isSame {
			found[Mended] = true
		}
	case s.status == was.status:
	case s.status == fault.NotAcceptable.Status():
		found[Unreadable] = true
	default:
		found[Unserved] = true
	}
	if s.stale && !(was.stale && isSame) {
		found[Stale] = true
	}
}

// effectOf adds what differs from what the machine booted before.
func (b *booted) effectOf(was *booted, existed bool, found map[Effect]bool) {
	switch {
	case *b == *was:
	case b.fails && !was.fails:
		found[Unbootable] = true
	case !existed:
	case was.fails && !b.fails:
		found[Mended] = true
	default:
		found[BootChanged] = true
	}
}
