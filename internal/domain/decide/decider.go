package decide

import (
	"slices"

	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
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
	q.view = q.decider.opts.Inventory.View()
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
		facts.Image = imageConfig(q.view, h)
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
func imageConfig(view model.View, h *model.Host) match.Ref {
	if h.Image == (model.Ref{}) || view.Islands().Separate(h.Namespace, h.Image.Namespace) {
		return match.Ref{}
	}
	if image := view.Image(h.Image); image != nil {
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
