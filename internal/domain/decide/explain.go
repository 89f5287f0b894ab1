package decide

import (
	"cmp"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// Explanation is a decision with its reasons.
type Explanation struct {
	// Endpoint is "ignition" or "kickstart".
	Endpoint string `json:"endpoint"`
	Client   Client `json:"client"`
	// Facts are those that configs are matched with.
	Facts Facts `json:"facts"`
	// Host is the machine, as namespace/name; empty where it is unknown.
	Host string `json:"host,omitempty"`
	// FoundBy is the fact that identifies the host: mac, ip, uuid, hostname, address or neighbor.
	FoundBy string `json:"foundBy,omitempty"`
	// Boot is the boot decision; nil for an unknown machine and a refused one.
	Boot *ExplainedBoot `json:"boot,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
	// Winner is the config that matched, also where it cannot be served.
	Winner *Winner `json:"winner,omitempty"`
	// Candidates are all configs of any type, first those that match, by their rank.
	// Empty where the request was refused before.
	Candidates []Candidate `json:"candidates"`
	// Notices are the events that the request makes.
	Notices []ExplainedNotice `json:"notices,omitempty"`
	// Error is the body of an answer without a config.
	Error string `json:"error,omitempty"`
}

// ExplainedBoot is the boot decision of a host.
type ExplainedBoot struct {
	// Local is true where it boots its disk.
	Local bool `json:"local"`
	// Image is the ISCSICdrom that it boots, as namespace/name.
	Image string `json:"image,omitempty"`
	// Script is true where the host or its namespace has its own script.
	Script bool `json:"script,omitempty"`
	// KernelArgs are the host's own; the image's hold where it has none.
	KernelArgs []string `json:"kernelArgs,omitempty"`
	// State is status.state of the host.
	State string `json:"state"`
	// Release is that of the image, MaxIgnition the newest Ignition version that it reads,
	// where they are known.
	Release     string `json:"release,omitempty"`
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// Skew says that the image cannot read the host's config.
	Skew string `json:"skew,omitempty"`
	// Reason explains the decision. Error says why there is nothing to boot.
	Reason string `json:"reason"`
	Error  string `json:"error,omitempty"`
}

// Client is the sender of the request.
type Client struct {
	// Address is the client's, as the network shows it.
	Address string `json:"address,omitempty"`
	// Neighbor is its hardware address in the neighbour table.
	Neighbor string `json:"neighbor,omitempty"`
	// Believed is true where all claims of the caller hold.
	Believed bool `json:"believed,omitempty"`
}

// Facts are those of the machine.
type Facts struct {
	MACs      []string          `json:"macs,omitempty"`
	IPs       []string          `json:"ips,omitempty"`
	Hostnames []string          `json:"hostnames,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Namespace is the host's own, whose configs are preferred.
	Namespace string `json:"namespace,omitempty"`
	// Role is the requested role, if it was granted.
	Role string `json:"role,omitempty"`
	// ImageConfig is the config that the host's image names.
	ImageConfig string `json:"imageConfig,omitempty"`
}

// Winner is the config that was chosen.
type Winner struct {
	Config          string `json:"config"`
	Tier            string `json:"tier"`
	Hash            string `json:"hash,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Served is the Ignition version of the answer, where the config was converted;
	// Hash is of that form.
	Served string `json:"served,omitempty"`
	// Stale is true where an older compilation is served.
	Stale bool `json:"stale,omitempty"`
	// Template is true for a template: Hash and Size, in bytes, are of its rendering for
	// the machine, and are left out where that fails.
	Template bool `json:"template,omitempty"`
	Size     int  `json:"size,omitempty"`
	// Layers are those onto which the config was merged, the lowest first.
	Layers []ExplainedLayer `json:"layers,omitempty"`
	// Origins are the layers of each file, directory, link, unit, user, group, disk,
	// filesystem and kernel argument of a config with layers. The layer that wins is the
	// last. Names are those of configs in the winner's namespace.
	Origins []ignition.Origin `json:"origins,omitempty"`
}

// statusOK is the HTTP status of an answer with a config; package fault has the others.
const statusOK = 200

// Outcomes of a candidate.
const (
	OutcomeWinner        = "winner"
	OutcomeLost          = "lost"
	OutcomeNoMatch       = "no match"
	OutcomeNotConsidered = "not considered"
)

// Candidate is the outcome of one config.
type Candidate struct {
	Config string `json:"config"`
	Type   string `json:"type"`
	// Tier is the tier in which it matches; empty where it does not.
	Tier    string `json:"tier,omitempty"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// ExplainedNotice is an event that the request makes.
type ExplainedNotice struct {
	Reason string `json:"reason"`
	// Host is the host of the event, as namespace/name; empty: an unknown machine.
	Host    string `json:"host,omitempty"`
	Message string `json:"message"`
}

// trace records how a decision was made. A nil trace records nothing.
type trace struct {
	query match.Query
	// types are the types of config that were considered, in order.
	types []string
	// rules are all configs at the time of the decision.
	rules []*match.Rule
}

// considered records that configs of a type were considered.
func (t *trace) considered(typ string) {
	if t != nil {
		t.types = append(t.types, typ)
	}
}

// Explain decides as Config does, and explains the decision.
func (d *Decider) Explain(req *Request) *Explanation {
	var t trace
	dec := d.config(req, &t)
	e := &Explanation{
		Endpoint:   req.Type,
		Client:     Client{Believed: req.Caller.Believed},
		Facts:      t.facts(),
		Host:       nameOf(dec.Host),
		FoundBy:    dec.FoundBy,
		Status:     statusOK,
		Candidates: []Candidate{},
	}
	if req.Caller.Addr.IsValid() {
		e.Client.Address = req.Caller.Addr.String()
	}
	if req.Caller.MAC != zeroMAC {
		e.Client.Neighbor = req.Caller.MAC.String()
	}
	if c := dec.Config; c != nil {
		e.Winner = &Winner{
			Config: c.Ref.String(), Tier: dec.Tier.String(), Hash: c.Hash, IgnitionVersion: c.IgnitionVersion, Stale: c.Stale,
			Template: dec.Template, Size: len(c.Artifact),
		}
		if dec.Template && c.Template { // not rendered
			e.Winner.Hash, e.Winner.Size = "", 0
		}
		e.Winner.Layers, e.Winner.Origins = explainLayers(d.opts.Inventory.View(), c)
	}
	if dec.Form != nil {
		e.Winner.Served, e.Winner.Hash, e.Winner.Size = dec.Form.Version, dec.Form.Hash, len(dec.Form.Bytes)
	}
	if dec.Err != nil {
		e.Status, e.Error = dec.Err.Kind.Status(), dec.Err.Sentence
	}
	for _, n := range dec.Notices {
		e.Notices = append(e.Notices, ExplainedNotice{Reason: n.Reason, Host: nameOf(n.Host), Message: n.Message})
	}
	if len(t.types) > 0 {
		e.Candidates = t.candidates(req, &dec)
	}
	e.Boot = d.explainBoot(req)
	return e
}

// nameOf returns the name of a host, "" where it is nil.
func nameOf(h *snapshot.Host) string {
	if h == nil {
		return ""
	}
	return h.Ref.String()
}

// explainBoot returns what the machine of a request would boot.
func (d *Decider) explainBoot(req *Request) *ExplainedBoot {
	b := d.Boot(&Request{Type: IPXE, Caller: req.Caller, Claims: req.Claims})
	if b.Host == nil || b.Err != nil && b.Err.Kind == fault.Refused && b.Reason == "" {
		return nil
	}
	e := &ExplainedBoot{
		Local: b.Local, Script: b.Script != "", State: cmp.Or(b.Progress.State, v1.StateAvailable), Reason: b.Reason,
	}
	if b.Image != nil {
		e.Image, e.KernelArgs = b.Image.Ref.String(), b.Host.Booting().KernelArgs
		e.Release, e.MaxIgnition = b.Image.Release, b.Image.MaxIgnition
	}
	if b.Err != nil {
		e.Error = b.Err.Sentence
	}
	if s, _ := d.SkewOfStored(b.Host, req.Gone); s != nil {
		e.Skew = s.String()
	}
	return e
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
	if t.query.Image != (match.Ref{}) {
		f.ImageConfig = t.query.Image.String()
	}
	return f
}

// candidates returns the outcome of every config: of the types that were considered, the
// last first, since only its configs can have matched; then the others.
func (t *trace) candidates(req *Request, dec *ConfigDecision) []Candidate {
	byType := make(map[string][]*match.Rule)
	for _, r := range t.rules {
		byType[r.Type] = append(byType[r.Type], r)
	}
	out := make([]Candidate, 0, len(t.rules))
	for _, typ := range slices.Backward(t.types) {
		query := t.query
		query.Type = typ
		standings := match.Rank(byType[typ], &query)
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
