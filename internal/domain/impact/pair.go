package impact

import (
	"slices"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
)

// pair returns the answers to the first of the hosts.
func (g *groups) pair(one *alike) Pair {
	shown := one.types()
	pair := Pair{
		Before: g.before.answer(one.first.before, shown), After: g.after.answer(one.first.after, shown),
		Hosts: len(one.refs),
	}
	for n, typ := range shown {
		if i := slices.Index(types[:], typ); pair.After != nil {
			pair.After.Configs[n].SecretsChanged = differInSecrets(&one.before.configs[i], &one.after.configs[i])
		}
	}
	return pair
}

// types returns the types of config for which the answers differ or, where none do, the one that
// is received.
func (a *alike) types() (differ []string) {
	received := ""
	for i, typ := range types {
		before, after := &a.before.configs[i], &a.after.configs[i]
		if *before != *after {
			differ = append(differ, typ)
		}
		if received == "" && (before.config != model.Ref{} || after.config != model.Ref{}) {
			received = typ
		}
	}
	if len(differ) == 0 && received != "" {
		return []string{received}
	}
	return differ
}

// answer returns the answer to a host; nil where there is no such host.
func (s *side) answer(h *model.Host, shown []string) *Answer {
	if h == nil {
		return nil
	}
	a := &Answer{}
	for _, typ := range shown {
		decision := s.decider.Receives(h, typ)
		if decision.Host != nil && decision.Host.Ref != h.Ref {
			a.Host = decision.Host.Ref.String()
		}
		a.Configs = append(a.Configs, s.describe(&decision, typ))
	}
	if s.boots {
		a.Boot = s.answerBoot(h)
	}
	return a
}

// answerBoot returns what the machine of a host is told to boot.
func (s *side) answerBoot(h *model.Host) *Booted {
	decision := s.decider.Boots(h)
	b := &Booted{Local: decision.Local, Script: decision.Script != "", Pending: decision.Awaits}
	if decision.Image != nil {
		b.Image = decision.Image.Ref.String()
	}
	if decision.Err != nil && !decision.Awaits {
		b.Error = decision.Err.Sentence
	} else if decision.Image != nil {
		if _, err := s.login(decision.Image); err != nil {
			b.Error = err.Error()
		}
	}
	return b
}

// describe returns the answer to a request for a config of a type.
func (s *side) describe(decision *decide.ConfigDecision, typ string) Served {
	answer := answerOf(decision)
	out := Served{Type: typ, Status: answer.status}
	if decision.Err != nil {
		out.Error = decision.Err.Sentence
	}
	if decision.Config == nil {
		return out
	}
	out.Config, out.Match = answer.config.String(), decision.Tier.String()
	if s.unknown[answer.config] || decision.Err == errNotRendered {
		out.Status, out.Error = 0, "it is not known: it is still being compiled, or too many configs change at once"
		return out
	}
	out.Hash, out.IgnitionVersion, out.Stale = answer.hash, answer.version, answer.stale
	return out
}

// currentIgnition is the Accept header of an Ignition of which nothing else is known.
var currentIgnition = ignition.AcceptOf(ignition.Newest)

// strangers returns the change for machines that are no known hosts and of which no address is
// known; nil: there is none.
func (a *assessor) strangers() *Pair {
	pair := Pair{Before: &Answer{}, After: &Answer{}}
	for _, typ := range a.ofChanged {
		before, after := a.before.toStranger(typ), a.after.toStranger(typ)
		was, is := answerOf(&before), answerOf(&after)
		if was == is && !a.after.unknown[is.config] || isMissing(&before) && isMissing(&after) {
			continue
		}
		pair.Before.Configs = append(pair.Before.Configs, a.before.describe(&before, typ))
		described := a.after.describe(&after, typ)
		described.SecretsChanged = differInSecrets(&was, &is)
		pair.After.Configs = append(pair.After.Configs, described)
	}
	if len(pair.After.Configs) == 0 {
		return nil
	}
	return &pair
}

func isMissing(decision *decide.ConfigDecision) bool {
	return decision.Err != nil && decision.Err.Kind == fault.NoMatch
}

func (s *side) toStranger(typ string) decide.ConfigDecision {
	req := &decide.Request{Type: typ, Reveal: true}
	if typ == decide.Ignition {
		req.Accept = currentIgnition
	}
	return s.decider.Config(req)
}

// bytes returns what a host receives, with placeholders for the values of Secrets; nil where that is an
// error or not known.
func (s *side) bytes(h *model.Host, typ string) []byte {
	if h == nil {
		return nil
	}
	decision := s.decider.Receives(h, typ)
	if decision.Err == nil && decision.Config.Revealed {
		decision = s.decider.Masked(h, typ)
	}
	switch {
	case decision.Err != nil || s.unknown[decision.Config.Ref]:
		return nil
	case decision.Form != nil:
		return decision.Form.Bytes
	}
	return decision.Config.Artifact
}

// Inspected returns the hosts that receive other bytes, or a config for the first time, and whose
// hardware is known, in the order of the groups.
func (i *Impact) Inspected() (hosts []model.Ref) {
	for _, group := range i.Groups {
		if !slices.ContainsFunc(group.Effects, Effect.isOfBytes) {
			continue
		}
		for _, ref := range group.refs {
			if h := i.after.view.Host(ref); h != nil && h.Hardware != 0 {
				hosts = append(hosts, ref)
			}
		}
	}
	return hosts
}

// Move is a host that receives another config of a type than before; zero: none.
type Move struct{ Host, Before, After model.Ref }

// Moves returns the first of the hosts that receive other configs, and for which ok is true, in the order of the
// groups.
func (i *Impact) Moves(most int, ok func(host string) bool) (moves []Move) {
	for _, group := range i.Groups {
		isMoved := slices.ContainsFunc(group.Effects, func(e Effect) bool {
			return e == Unmatched || e == ConfigChanged || e == Mended
		})
		for n, ref := range group.refs {
			if !isMoved || n == maxMoved || len(moves) >= most {
				break
			}
			if ok(ref.String()) {
				moves = append(moves, i.moves(ref)...)
			}
		}
	}
	return moves
}

// maxMoved bounds the hosts of a group that are searched for moves.
const maxMoved = 100

// moves returns the moves of a host, one for each type of config that differs.
func (i *Impact) moves(ref model.Ref) (moves []Move) {
	old, now := i.before.view.Host(ref), i.after.view.Host(ref)
	if old == nil || now == nil {
		return nil
	}
	for _, typ := range types {
		before, after := i.before.decider.Receives(old, typ), i.after.decider.Receives(now, typ)
		if was, is := answerOf(&before).config, answerOf(&after).config; was != is {
			moves = append(moves, Move{ref, was, is})
		}
	}
	return moves
}

func (e Effect) isOfBytes() bool {
	return e == ConfigChanged || e == ContentChanged || e == Mended || e == HostAdded
}

// Bytes returns the Ignition config that a host receives before and after the changes; nil: none,
// or it is not known.
func (i *Impact) Bytes(host model.Ref) (before, after []byte) {
	return i.before.bytes(i.before.view.Host(host), decide.Ignition),
		i.after.bytes(i.after.view.Host(host), decide.Ignition)
}
