package decide

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// The endpoints for configs, which are also the types of config that they prefer.
const (
	Ignition  = "ignition"
	Kickstart = "kickstart"
)

// Policy is the operator's rules for machines.
type Policy struct {
	// Claims is the treatment of claims (--identity-claims).
	Claims identity.Mode
	// Neighbors is the use of the neighbour table (--neighbors).
	Neighbors identity.NeighborMode
}

// Inventory has the newest view of all objects.
type Inventory interface{ View() model.View }

// Options are the parts of a Decider. All but Inventory are optional.
type Options struct {
	// Inventory has the hosts, the configs and the images.
	Inventory Inventory
	Policy    Policy
	// Progress has newer progress of hosts than their status; nil: the status counts.
	Progress Progress
	// Images knows which images this server can serve; nil: all of them.
	Images Images
	// Lost knows what the store has lost; nil: nothing.
	Lost LostObjects
	// Renderer renders templates; nil: none are served.
	Renderer Renderer
	// Tokens checks the tokens of boots; nil: none are needed.
	Tokens *boottoken.Key
}

// Decider decides about the requests of machines. It is safe for concurrent use.
type Decider struct {
	opts  Options
	forms *forms
}

// New returns a Decider.
func New(opts Options) *Decider {
	return &Decider{opts: opts, forms: newForms()}
}

// On returns a Decider with the same rules over a view that does not change. It takes each image for
// one that this server can serve. renderer renders its templates.
func (d *Decider) On(view model.View, renderer Renderer) *Decider {
	opts := d.opts
	opts.Inventory, opts.Images, opts.Renderer = fixed{view}, nil, renderer
	return &Decider{opts: opts, forms: d.forms}
}

// fixed is an Inventory that does not change.
type fixed struct{ view model.View }

func (f fixed) View() model.View { return f.view }

// View returns the newest view of all objects.
func (d *Decider) View() model.View { return d.opts.Inventory.View() }

// Policy returns the operator's rules for machines.
func (d *Decider) Policy() Policy { return d.opts.Policy }

// Renderer returns the renderer of templates; nil: there is none.
func (d *Decider) Renderer() Renderer { return d.opts.Renderer }

// offerFor returns the configs that a host is offered.
func offerFor(view model.View, h *model.Host) match.Offer {
	if view.Islands().Has(h.Namespace) {
		return match.OwnNamespace
	}
	return match.Everywhere
}

// Config decides which config a machine receives.
func (d *Decider) Config(req *Request) ConfigDecision { return d.Traced(req, nil) }

// Traced decides as Config does, and fills a Trace, which may be nil.
func (d *Decider) Traced(req *Request, t *Trace) ConfigDecision {
	q := configQuestion{newQuestion(d, model.View{}, req)}
	q.pick(t)
	q.renderChosen()
	return q.dec
}

// Identify returns the host that a request is of, also where a claim of it is refused; nil: none is known.
func (d *Decider) Identify(req *Request) *model.Host {
	q := newQuestion(d, d.View(), req)
	_ = q.identify()
	return q.dec.Host
}

// ConfigFor decides as Config does about a request whose machine is known to be a host, and its
// limits do not count.
func (d *Decider) ConfigFor(h *model.Host, req *Request) ConfigDecision {
	q := configQuestion{newQuestion(d, d.View(), req)}
	q.dec.Host = h
	query := q.query()
	q.dec.Err = q.choose(&query, nil)
	q.renderChosen()
	return q.dec
}

// Assigned returns the config of a type that a host receives without claims; nil: none.
func (d *Decider) Assigned(view model.View, host *model.Host, typ string) *model.Config {
	query := d.QueryOf(view, host, typ)
	config, _ := view.Pick(&query)
	return config
}

// QueryOf returns the query for the config of a type that a host, which need not be stored,
// receives without claims.
func (d *Decider) QueryOf(view model.View, host *model.Host, typ string) match.Query {
	q := configQuestion{newQuestion(d, view, claimless)}
	q.dec.Host = host
	query := q.query()
	query.Type = typ
	return query
}

// claimless is a request without claims, of no type.
var claimless = &Request{}

// AnyInstaller has the types of config of a host whose installer is not known, in their order.
var AnyInstaller = []string{Ignition, Kickstart}

// ConfigOf returns the config that a host, which need not be stored, receives without
// claims: of type ignition or, without one, kickstart. nil: there is none.
func (d *Decider) ConfigOf(view model.View, h *model.Host) (*model.Config, match.Tier) {
	query := d.QueryOf(view, h, "")
	for _, typ := range AnyInstaller {
		query.Type = typ
		if config, tier := view.Pick(&query); config != nil {
			return config, tier
		}
	}
	return nil, match.None
}

// pick finds the host and the config.
func (q *configQuestion) pick(t *Trace) {
	q.view = q.opts.Inventory.View()
	dec := &q.dec
	if dec.Err = q.identifyAndAdmit(); dec.Err == nil {
		dec.Err = q.limit()
	}
	query := q.query()
	if t != nil {
		t.Query, t.View = query, q.view
	}
	if dec.Err == nil {
		dec.Err = q.choose(&query, t)
	}
	if isFinal(dec.Err) {
		return
	}
	if hold := q.holdConfig(); hold != nil {
		dec.Err = hold
		dec.Notices = slices.DeleteFunc(dec.Notices, func(n Notice) bool { return n.Reason == ReasonNoConfig })
	}
}

// isFinal reports whether a request was refused, whatever is lost.
func isFinal(err *fault.Error) bool {
	return err != nil && (err.Kind == fault.Refused || err.Kind == fault.Malformed) || err == ClaimsLimited
}

// query collects the facts: all facts of a known host, or the claims of an unknown
// machine, and the address.
func (q *configQuestion) query() match.Query {
	query := match.Query{Type: q.req.Type, Facts: match.Facts{Role: q.role}}
	facts := &query.Facts
	h := q.dec.Host
	switch {
	case h != nil:
		query.Namespace, query.Offer = h.Namespace, offerFor(q.view, h)
		facts.MACs, facts.IPs, facts.Hostnames, facts.Labels = h.MACs, h.IPs, h.Hostnames, h.Labels
		facts.Image = q.imageConfig(h)
	case q.view.Islands().Any():
		query.Offer = match.DefaultsOnly
	}
	if h == nil && q.neighbor != zeroMAC {
		facts.MACs = include(facts.MACs, q.neighbor)
	}
	if q.mac != zeroMAC {
		facts.MACs = include(facts.MACs, q.mac)
	}
	if q.addr.IsValid() {
		facts.IPs = include(facts.IPs, q.addr)
	}
	if q.hostname != "" {
		facts.Hostnames = include(facts.Hostnames, q.hostname)
	}
	return query
}

// imageConfig returns the config that a host's image names; zero: none.
func (q *configQuestion) imageConfig(h *model.Host) match.Ref {
	if h.Image == (model.Ref{}) || q.view.Islands().Separate(h.Namespace, h.Image.Namespace) {
		return match.Ref{}
	}
	if image := q.view.Image(h.Image); image != nil {
		return image.Config
	}
	return match.Ref{}
}

// include returns values with one more, unless it is among them. The host's own values
// are not changed.
func include[T comparable](values []T, one T) []T {
	if slices.Contains(values, one) {
		return values
	}
	return append(slices.Clip(values), one)
}

// choose finds the config, and returns an error where it cannot be served.
func (q *configQuestion) choose(query *match.Query, t *Trace) *fault.Error {
	dec := &q.dec
	accept := q.accept()
	t.considered(query.Type)
	dec.Config, dec.Tier = q.view.Pick(query)
	if dec.Config == nil && q.req.Type == Ignition && !accept.NamesIgnition() {
		query.Type = Kickstart
		t.considered(query.Type)
		dec.Config, dec.Tier = q.view.Pick(query)
	}
	config := dec.Config
	switch {
	case config == nil:
		return q.noMatch()
	case q.req.Claims.Raw && config.Source == "" && !q.req.Pointer:
		return fault.New(fault.Unavailable, "config "+config.Ref.String()+" has no source; write it anew")
	case q.req.Claims.Raw:
		return nil
	case q.req.Pointer:
		return nil
	case len(config.Artifact) == 0:
		return fault.New(fault.Unavailable, "config "+config.Ref.String()+" "+Uncompiled(config)+
			", and this machine is served when it asks again")
	case config.Type == Ignition && !config.Template:
		return q.form(accept)
	}
	return nil
}

// Uncompiled says why a config without an artifact has none, as the predicate of a sentence. A
// config that has changed its type may have compiled before: that result is for another installer.
func Uncompiled(config *model.Config) string {
	if config.Pending {
		return "is still being compiled"
	}
	return "has no compiled result of type " + config.Type +
		"; correct the error that its status or glowplug validate names"
}

// accept returns the Accept header, which counts for configs of Ignition alone.
func (q *configQuestion) accept() ignition.Accept {
	if q.req.Type != Ignition {
		return ignition.Accept{}
	}
	return ignition.ParseAccept(q.req.Accept)
}

func (q *configQuestion) noMatch() *fault.Error {
	sentence := "no " + q.req.Type + " config matches "
	if h := q.dec.Host; h != nil {
		if !q.req.Caller.Believed { // see unknown
			q.notice(ReasonNoConfig, h, q.req.Type, q.who()+" asks for its "+q.req.Type+
				" config, and none matches this host: it is answered 404")
		}
		return fault.New(fault.NoMatch, sentence+"host "+h.Ref.String()+
			"; give one a selector that holds for it, or default: true"+q.ignored())
	}
	sentence += q.noHost()
	if q.view.Islands().Any() {
		sentence += " in a namespace that is no island"
	}
	return fault.New(fault.NoMatch, sentence+q.ignored())
}

// ignored names the claims that were ignored and says why, for the end of a sentence.
func (q *question) ignored() string {
	if named := Named(&q.req.Claims); len(named) > 0 && q.opts.Policy.Claims == identity.Deny && !q.req.Caller.Believed {
		return "; claims ignored by the server's --identity-claims=deny: " + strings.Join(named, ", ")
	}
	if named := q.dec.Unheld.Ignored; len(named) > 0 {
		why := "no BareMetalHost has them"
		if q.otherBoard {
			why += otherCards
		}
		return "; claims ignored, since " + why + ": " + strings.Join(named, ", ")
	}
	return ""
}

// otherCards is why a UUID identifies nobody where a host has it, as the rest of a clause.
const otherCards = ", or the one with this UUID has other hardware addresses than this machine"

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// question is a request that is being decided.
type question struct {
	*Decider
	view model.View
	req  *Request
	// dec is the decision so far.
	dec ConfigDecision

	// addr is the client's address, or the believed one.
	addr netip.Addr
	// neighbor is the client's entry in the neighbour table, where there is one and the
	// client asks for itself.
	neighbor netaddr.MAC
	// former is the entry's earlier hardware address, where it changed a short time ago.
	former netaddr.MAC
	// role is the requested role, once it is granted.
	role string
	// mac and hostname are believed claims that no host has.
	mac      netaddr.MAC
	hostname string
	// otherBoard is true where the claimed UUID is that of a host with other hardware addresses.
	otherBoard bool
}

// configQuestion is a request for a config.
type configQuestion struct{ question }

// bootQuestion is a request for a boot script or an image.
type bootQuestion struct{ question }

// newQuestion returns a request before its decision.
func newQuestion(d *Decider, view model.View, req *Request) question {
	q := question{Decider: d, view: view, req: req, addr: req.Caller.Addr}
	if d.opts.Policy.Neighbors != identity.NeighborsOff {
		q.neighbor, q.former = req.Caller.MAC, req.Caller.Former
	}
	return q
}

// client returns the client's address for a sentence.
func (q *question) client() string {
	if !q.addr.IsValid() {
		return "an unknown address"
	}
	return q.addr.String()
}

// who names the client in the message of an event.
func (q *question) who() string {
	return machineAt(q.addr, q.neighbor)
}

func (q *question) notice(reason string, h *model.Host, key, message string) {
	n := Notice{Reason: reason, Host: h, Key: key, Message: message, From: netaddr.SourceOf(q.addr, q.neighbor)}
	if h == nil {
		n.Machine = MachineName(cmp.Or(q.neighbor, q.req.Claims.MAC), q.addr)
	}
	q.dec.Notices = append(q.dec.Notices, n)
}

// refuse refuses a claim: the client gets the sentence, the host an event.
func (q *question) refuse(h *model.Host, kind, sentence string) *fault.Error {
	q.notice(ReasonClaimRefused, h, kind+" "+q.client(), "a request from "+q.who()+" was refused: "+sentence)
	q.dec.Unheld.Refused = true
	return fault.New(fault.Refused, sentence)
}

// ignore adds the notice of a claim that no host has.
func (q *question) ignore(claim *claim) {
	named, why := claim.named(&q.req.Claims), "which no BareMetalHost has"
	if q.otherBoard && claim.kind == byUUID {
		why = "which is that of a BareMetalHost with other hardware addresses"
	}
	q.dec.Unheld.Ignored = append(q.dec.Unheld.Ignored, named)
	q.notice(ReasonClaimIgnored, q.dec.Host, claim.kind+" "+q.client(),
		q.who()+" claims the "+named+", "+why+"; the claim was ignored")
}

// unknown adds the notice of a machine that is no host.
func (q *question) unknown() {
	q.dec.Unknown, q.dec.Addr, q.dec.Neighbor = true, q.addr, q.neighbor
	if q.req.Caller.Believed {
		return // who asks for another machine is not that machine
	}
	// The message is the same for all that a machine asks for: it is one event.
	q.notice(ReasonUnknownHost, nil, q.who(), q.who()+" asks this server and is no known host; "+q.hostWithAddress())
}

// NeighborChanged returns the notice that the hardware address behind the address of a
// host's machine was another one a short time ago, and the refusal where that is enforced.
func NeighborChanged(h *model.Host, client netip.Addr, mac, former netaddr.MAC) (Notice, *fault.Error) {
	change := client.String() + " changed from " + former.String() + " to " + mac.String()
	return Notice{
			Reason: ReasonNeighborChanged, Host: h, Key: change, From: netaddr.SourceOf(client, mac),
			Message: "the hardware address behind " + change + " within the last minute, or since the machine connected",
		}, fault.New(fault.Refused, "the hardware address behind "+client.String()+" was another one less than a minute ago,"+
			" or when this connection was made; connect again in a minute")
}
