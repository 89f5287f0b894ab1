package explain

import (
	"cmp"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Explain decides as Config does, and explains the decision.
func Explain(d *decide.Decider, req *decide.Request) *Explanation {
	var t decide.Trace
	dec := d.Traced(req, &t)
	e := &Explanation{
		Endpoint:   req.Type,
		As:         AsMachine,
		Client:     clientOf(req),
		Identity:   explainIdentity(d, req, &dec),
		Facts:      facts(&t),
		Host:       nameOf(dec.Host),
		FoundBy:    dec.FoundBy,
		Status:     statusOK,
		Candidates: []Candidate{},
	}
	if req.Caller.Believed {
		e.As = AsBelieved
	}
	if c := dec.Config; c != nil {
		e.Winner = &Winner{
			Config: c.Ref.String(), Tier: dec.Tier.String(), Hash: c.Hash, IgnitionVersion: c.IgnitionVersion, Stale: c.Stale,
			Template: dec.Template, Size: len(c.Artifact),
		}
		if dec.Template && c.Template { // not rendered
			e.Winner.Hash, e.Winner.Size = "", 0
		}
		e.Winner.Layers, e.Winner.Origins = explainLayers(d.View(), c)
	}
	if dec.Form != nil {
		e.Winner.Served, e.Winner.Hash, e.Winner.Size = dec.Form.Version, dec.Form.Hash, len(dec.Form.Bytes)
	}
	if dec.Err != nil {
		e.Status, e.Error = dec.Err.Kind.Status(), dec.Err.Sentence
	}
	for _, n := range dec.Notices {
		e.Notices = append(e.Notices, Notice{Reason: n.Reason, Host: nameOf(n.Host), Message: n.Message})
	}
	if len(t.Types) > 0 {
		e.Candidates = candidates(&t, req, &dec)
	}
	if !req.Caller.Believed {
		e.DependsOnAddress = dependsOnAddress(d, &t, &dec)
	}
	e.Boot = explainBoot(d, req)
	return e
}

func clientOf(req *decide.Request) Client {
	c := Client{
		OtherMAC: req.Claims.OtherMAC, Believed: req.Caller.Believed, Accept: req.Accept, UserAgent: req.UserAgent,
	}
	if req.Caller.Addr.IsValid() {
		c.Address = req.Caller.Addr.String()
	}
	if req.Caller.MAC != zeroMAC {
		c.Neighbor = req.Caller.MAC.String()
	}
	return c
}

// dependsOnAddress reports whether an address of the machine could change a decision.
func dependsOnAddress(d *decide.Decider, t *decide.Trace, dec *decide.ConfigDecision) bool {
	view := d.View()
	var picked *model.Config // not its rendering
	if dec.Config != nil {
		picked = view.Config(dec.Config.Ref)
	}
	return mayDependOnIP(view, t.Query, t.Types, picked, dec.Tier)
}

// mayDependOnIP reports whether the address of a machine, which the query does not have, can
// change which config is picked for it: types are those that are considered, in their order, and
// config is the picked one or nil.
func mayDependOnIP(view model.View, query match.Query, types []string, config *model.Config,
	tier match.Tier) bool {
	if len(query.IPs) > 0 {
		return false
	}
	for _, typ := range types {
		query.Type = typ
		if config != nil && config.Type == typ {
			return view.MayDependOnIP(&query, config, tier)
		}
		if view.MayDependOnIP(&query, nil, match.None) {
			return true
		}
	}
	return false
}

// explainIdentity says whether the network confirms who the machine is, and why.
func explainIdentity(d *decide.Decider, req *decide.Request, dec *decide.ConfigDecision) string {
	h, addr := dec.Host, req.Caller.Addr
	switch {
	case req.Caller.Believed:
		return "not verified (all claims of a believed caller are accepted)"
	case dec.Err != nil && dec.Err.Kind == fault.Refused && !dec.Limited:
		return "refused (the answer says why)"
	case d.Policy().Claims == identity.Trust && req.Claims.Any():
		return "not verified (the server accepts all claims: --identity-claims=trust)"
	case h == nil:
		return "not verified (no BareMetalHost has the address or the hardware address of this client)"
	case slices.ContainsFunc(dec.Notices, func(n decide.Notice) bool { return n.Reason == decide.ReasonNeighborMismatch }):
		return "not verified (the host does not have the hardware address that the neighbour table has for " +
			addr.String() + ")"
	case slices.Contains(h.IPs, addr):
		return "verified (" + addr.String() + " is an address of the host)"
	case slices.Contains(h.MACs, req.Caller.MAC) && !addr.IsValid():
		return "verified if the machine is on the server's own network (its address is not known)"
	case slices.Contains(h.MACs, req.Caller.MAC):
		return "verified (" + req.Caller.MAC.String() + " is a hardware address of the host)"
	}
	return "verified (" + addr.String() + " is one of the host's bootSources, and the request claims to be the host)"
}

// nameOf returns the name of a host, "" where it is nil.
func nameOf(h *model.Host) string {
	if h == nil {
		return ""
	}
	return h.Ref.String()
}

// explainBoot returns what the machine of a request would boot.
func explainBoot(d *decide.Decider, req *decide.Request) *Boot {
	b := d.Boot(&decide.Request{Type: decide.IPXE, At: req.At, Caller: req.Caller, Claims: req.Claims})
	if b.Host == nil || b.Err != nil && b.Err.Kind == fault.Refused && b.Reason == "" {
		return nil
	}
	e := &Boot{
		Local: b.Local, Script: b.Script != "", NamespaceScript: b.OfNamespace, Token: b.Limits.Token && !b.Local,
		State: cmp.Or(b.Progress.State, v1.StateAvailable), Reason: b.Reason,
	}
	if b.Image != nil {
		e.Image, e.Arguments = b.Image.Ref.String(), Arguments(b.Image, b.Args)
		e.NoConfig = cmp.Or(noConfig(b.Image, b.Args), noInstallation(b.Image, b.Host),
			otherType(d, d.View(), b.Image, b.Host))
		e.Release, e.MaxIgnition = b.Image.Release, b.Image.MaxIgnition
	}
	if b.Err != nil {
		e.Error = b.Err.Sentence
	}
	if s, _ := SkewOfStored(d, b.Host, req.Gone); s != nil {
		e.Skew = s.String()
	}
	return e
}

// Inquire explains the answer to an inquiry, and adds the answers to other clients where
// they differ.
func Inquire(d *decide.Decider, in *Inquiry) (*Explanation, *fault.Error) {
	view := d.View()
	host, err := in.named(view)
	if err != nil {
		return nil, err
	}
	machine, addresses := in.asMachine(view, host)
	believed := in.asBelieved(host)
	headers := ""
	if in.leavesHeaders() {
		headers = giveHeaders(d, machine, host)
	}
	installer := *machine
	installer.Type, installer.Accept = decide.Kickstart, ""
	if in.Type == decide.Kickstart {
		installer.Type = decide.Ignition
		giveHeaders(d, &installer, host)
	}
	req := machine
	if in.As == AsBelieved {
		req, addresses, headers = believed, nil, ""
	}
	e := Explain(d, req)
	e.Client.Headers, e.Named = headers, nameOf(host)
	if len(addresses) > 1 {
		e.Client.Addresses = Texts(addresses)
	}
	e.Others = otherAnswers(d, req, in.others(host, machine, believed, &installer))
	return e, nil
}

// giveHeaders gives a request the headers of the machine's Ignition, and says which these
// are: those of the release in its image where that is known, else of a current one.
func giveHeaders(d *decide.Decider, req *decide.Request, named *model.Host) string {
	newest, whose := ignition.Newest, "a current Ignition"
	if host := cmp.Or(d.Identify(req), named); host != nil { // a refused request has headers, too
		if image := d.View().Image(host.Image); image != nil && image.MaxIgnition != "" {
			newest, whose = image.MaxIgnition, "the Ignition in image "+image.Ref.String()
			if image.Release != "" {
				whose += ", release " + image.Release
			}
		}
	}
	req.Accept = ignition.AcceptOf(newest)
	return whose + ", which reads spec " + newest
}

// otherAnswers returns the answers to other clients that differ from the one to a request.
// A client of another endpoint counts only where that has a config.
func otherAnswers(d *decide.Decider, req *decide.Request, others []otherClient) (differing []Other) {
	got := answer(d, req)
	for _, other := range others {
		answer := answer(d, other.req)
		differs := answer.Status != got.Status || answer.Config != got.Config || answer.IgnitionVersion != got.IgnitionVersion
		if differs && (other.req.Type == req.Type || answer.Status == statusOK) {
			differing = append(differing, Other{Client: other.name, Answer: answer})
		}
	}
	return differing
}

// answer decides as Config does, and returns the answer to the client.
func answer(d *decide.Decider, req *decide.Request) Answer {
	dec := d.Config(req)
	if dec.Err != nil {
		return Answer{Status: dec.Err.Kind.Status(), Error: dec.Err.Sentence}
	}
	a := Answer{Status: statusOK, Config: dec.Config.Ref.String(), IgnitionVersion: dec.Config.IgnitionVersion}
	if dec.Form != nil {
		a.IgnitionVersion = dec.Form.Version
	}
	return a
}
