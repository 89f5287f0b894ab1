package explain

import (
	"slices"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
)

// facts returns the facts of a decision.
func facts(t *decide.Trace) Facts {
	f := Facts{
		MACs: Texts(t.Query.MACs), IPs: Texts(t.Query.IPs), Hostnames: t.Query.Hostnames, Labels: t.Query.Labels,
		Namespace: t.Query.Namespace, Role: t.Query.Role,
	}
	if island, ok := t.View.Islands().Why(f.Namespace); ok && f.Namespace != "" {
		f.Island = island.String()
	}
	if t.Query.Image != (match.Ref{}) {
		f.ImageConfig = t.Query.Image.String()
	}
	return f
}

// candidates returns the outcome of every config: of the types that were considered, the
// last first, since only its configs can have matched; then the others.
func candidates(t *decide.Trace, req *decide.Request, dec *decide.ConfigDecision) []Candidate {
	byType := make(map[string][]*match.Rule)
	all := t.View.Rules()
	for _, r := range all {
		byType[r.Type] = append(byType[r.Type], r)
	}
	out := make([]Candidate, 0, len(all))
	for _, typ := range slices.Backward(t.Types) {
		query := t.Query
		query.Type = typ
		standings := match.Rank(byType[typ], &query, t.View.Islands().Has)
		for _, s := range standings {
			out = append(out, candidate(s, dec, standings))
		}
	}
	for _, typ := range decide.AnyInstaller {
		if slices.Contains(t.Types, typ) {
			continue
		}
		reason := "only kickstarts are given here"
		if req.Type == decide.Ignition {
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
func candidate(s match.Standing, dec *decide.ConfigDecision, standings []match.Standing) Candidate {
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
