package decide

import (
	"slices"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// trace records how a decision was made. A nil trace records nothing.
type trace struct {
	query match.Query
	// types are the types of config that were considered, in order.
	types []string
	// view has the configs at the time of the decision.
	view model.View
}

// considered records that configs of a type were considered.
func (t *trace) considered(typ string) {
	if t != nil {
		t.types = append(t.types, typ)
	}
}

func (t *trace) facts() Facts {
	f := Facts{
		Hostnames: t.query.Hostnames, Labels: t.query.Labels, Namespace: t.query.Namespace, Role: t.query.Role,
	}
	for _, m := range t.query.MACs {
		f.MACs = append(f.MACs, m.String())
	}
	for _, a := range t.query.IPs {
		f.IPs = append(f.IPs, a.String())
	}
	if island, ok := t.view.Islands().Why(f.Namespace); ok && f.Namespace != "" {
		f.Island = island.String()
	}
	if t.query.Image != (match.Ref{}) {
		f.ImageConfig = t.query.Image.String()
	}
	return f
}

// candidates returns the outcome of every config: of the types that were considered, the
// last first, since only its configs can have matched; then the others.
func (t *trace) candidates(req *Request, dec *ConfigDecision) []Candidate {
	byType := make(map[string][]*match.Rule)
	all := t.view.Rules()
	for _, r := range all {
		byType[r.Type] = append(byType[r.Type], r)
	}
	out := make([]Candidate, 0, len(all))
	for _, typ := range slices.Backward(t.types) {
		query := t.query
		query.Type = typ
		standings := match.Rank(byType[typ], &query, t.view.Islands().Has)
		for _, s := range standings {
			out = append(out, candidate(s, dec, standings))
		}
	}
	for _, typ := range [...]string{Ignition, Kickstart} {
		if slices.Contains(t.types, typ) {
			continue
		}
		reason := "only kickstarts are given here"
		if req.Type == Ignition {
			reason = "a config of type ignition matches"
			if ignition.ParseAccept(req.Accept).NamesIgnition() {
				reason = "the client's Accept header asks for Ignition"
			}
		}
		rules := byType[typ]
		slices.SortFunc(rules, func(a, b *match.Rule) int { return a.Ref.Compare(b.Ref) })
		for _, r := range rules {
			out = append(out, Candidate{Config: r.Ref.String(), Type: typ, Outcome: OutcomeNotConsidered, Reason: reason})
		}
	}
	return out
}

// candidate returns the outcome of one standing.
func candidate(s match.Standing, dec *ConfigDecision, standings []match.Standing) Candidate {
	c := Candidate{Config: s.Rule.Ref.String(), Type: s.Rule.Type, Outcome: OutcomeNoMatch, Reason: s.Reason}
	if s.Tier == match.None {
		if !s.Offered {
			c.Outcome = OutcomeNotConsidered
		}
		return c
	}
	c.Tier = s.Tier.String()
	if dec.Config != nil && s.Rule.Ref == dec.Config.Ref {
		c.Outcome = OutcomeWinner
		return c
	}
	c.Outcome = OutcomeLost
	c.Reason += "; but " + standings[0].Rule.Ref.String() + " wins: " + standings[0].Over(s)
	return c
}
