package decide

import (
	"cmp"
	"net/netip"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// The endpoints, which are also the types of the configs that they give first.
const (
	Ignition  = "ignition"
	Kickstart = "kickstart"
)

// Policy is what the operator decided about machines.
type Policy struct {
	// Claims says how far claims are believed (--identity-claims).
	Claims identity.Mode
	// Neighbors says what the neighbour table is used for (--neighbors).
	Neighbors identity.NeighborMode
	// Isolate keeps machines to the configs of their own namespace
	// (--isolate-namespaces).
	Isolate bool
}

// Decider decides what machines are given. It is safe for concurrent use.
type Decider struct {
	inv    *snapshot.Inventory
	policy Policy
	forms  forms
	// progress is how far a host is; nil: as its status says.
	progress func(*snapshot.Host) snapshot.Progress
	// try tells whether an image can be had; nil: all can.
	try func(image *snapshot.Image, args []string) error
	// lost tells what the store has lost; nil: nothing.
	lost func() Lost
	// renderer renders templates; nil: none are served.
	renderer Renderer
}

// New makes a Decider over an inventory.
func New(inv *snapshot.Inventory, policy Policy) *Decider {
	return &Decider{inv: inv, policy: policy, forms: forms{limit: maxForms}}
}

// Decide answers a request. It overwrites dec but uses its memory again: with a
// Decision that was used before it allocates nothing for a known host, unless
// that has more than a handful of cards.
func (d *Decider) Decide(req *Request, dec *Decision) { d.decide(req, dec, nil) }

// decide is the decision. With a trace it notes what it went by, and decides
// the same.
func (d *Decider) decide(req *Request, dec *Decision, t *trace) {
	dec.reset()
	q := d.question(snapshot.View{}, req, dec)
	d.pick(&q, t)
	// The inventory is let go before anything is rendered: writers must not wait
	// for that.
	if dec.Err == nil && dec.Config != nil && dec.Config.Template && !req.Claims.Raw {
		dec.Template = true
		dec.Err = q.render(d.renderer)
	}
}

// pick finds the host and the config.
func (d *Decider) pick(q *question, t *trace) {
	dec := q.dec
	q.view = d.inv.View()
	defer q.view.End()
	dec.Err = q.identify()
	if dec.Err == nil {
		dec.Err = q.admit()
	}
	query := q.query(&dec.room)
	if t != nil {
		t.note(q, &query)
	}
	if dec.Err == nil {
		dec.Err = q.choose(&query, t)
	}
	if lost, ok := d.whatIsLost(dec.Err); ok {
		if doubt := cmp.Or(q.doubtHost(&lost), q.doubtConfig(&lost, &query)); doubt != nil {
			dec.Err = doubt
		}
	}
}

// question is a request that is yet to be decided.
func (d *Decider) question(view snapshot.View, req *Request, dec *Decision) question {
	q := question{view: view, policy: d.policy, forms: &d.forms, req: req, dec: dec, addr: req.Caller.Addr}
	if d.policy.Neighbors != identity.NeighborsOff {
		q.neighbor, q.former = req.Caller.MAC, req.Caller.Former
	}
	return q
}

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// question is a request that is being decided.
type question struct {
	view   snapshot.View
	policy Policy
	forms  *forms
	req    *Request
	dec    *Decision

	// addr is the client's address, or the believed one.
	addr netip.Addr
	// neighbor is the client's entry in the neighbour table, where there is one
	// and it speaks of the machine that is asked for.
	neighbor netaddr.MAC
	// former is what that entry had lately been; zero: the same.
	former netaddr.MAC
	// role is the role that was asked for and is granted.
	role string
	// mac and hostname are claims that count as facts although no host has them.
	mac      netaddr.MAC
	hostname string
}

// room is where the facts of a request are put together. It is part of the
// Decision, so that one that is used again brings it.
type room struct {
	macs      [8]netaddr.MAC
	ips       [8]netip.Addr
	hostnames [8]string
}

// query puts the facts together: all that a found host has, or what an unknown
// machine brings, and the address.
func (q *question) query(room *room) match.Query {
	query := match.Query{Type: q.req.Type, Facts: match.Facts{Role: q.role}}
	facts := &query.Facts
	h := q.dec.Host
	switch {
	case h != nil:
		query.Namespace = h.Namespace
		facts.MACs, facts.IPs, facts.Hostnames, facts.Labels = h.MACs, h.IPs, h.Hostnames, h.Labels
		if q.policy.Isolate {
			query.Offer = match.OwnNamespace
		}
		if h.Image != (snapshot.Ref{}) && (!q.policy.Isolate || h.Image.Namespace == h.Namespace) {
			if image := q.view.Image(h.Image); image != nil {
				facts.Image = image.Config
			}
		}
	case q.policy.Isolate:
		query.Offer = match.DefaultsOnly
	}
	if h == nil && q.neighbor != zeroMAC {
		facts.MACs = with(room.macs[:0], facts.MACs, q.neighbor)
	}
	if q.mac != zeroMAC {
		facts.MACs = with(room.macs[:0], facts.MACs, q.mac)
	}
	if q.addr.IsValid() {
		facts.IPs = with(room.ips[:0], facts.IPs, q.addr)
	}
	if q.hostname != "" {
		facts.Hostnames = with(room.hostnames[:0], facts.Hostnames, q.hostname)
	}
	return query
}

// with gives values and one more, which is added in room unless it is there.
func with[T comparable](room, values []T, one T) []T {
	for _, v := range values {
		if v == one {
			return values
		}
	}
	return append(append(room, values...), one)
}

// choose finds the config and says why it cannot be given, if it cannot.
func (q *question) choose(query *match.Query, t *trace) *fault.Error {
	dec := q.dec
	accept := ignition.Accept{}
	if q.req.Type == Ignition {
		accept = ignition.ParseAccept(q.req.Accept)
	}
	t.considered(query.Type)
	dec.Config, dec.Tier = q.view.Pick(query)
	if dec.Config == nil && q.req.Type == Ignition && !accept.NamesIgnition() {
		query.Type = Kickstart
		t.considered(query.Type)
		dec.Config, dec.Tier = q.view.Pick(query)
	}
	config := dec.Config
	if config == nil {
		return q.noMatch()
	}
	if q.req.Claims.Raw {
		if config.Source == "" {
			return fault.New(fault.Unavailable, "config "+config.Ref.String()+" has no source; write it anew")
		}
		return nil
	}
	if len(config.Artifact) == 0 {
		return fault.New(fault.Unavailable, "config "+config.Ref.String()+
			" has never compiled; correct its source as its status says, and this machine is served when it asks again")
	}
	if config.Type == Ignition && !config.Template {
		return q.form(accept)
	}
	return nil
}

func (q *question) noMatch() *fault.Error {
	what := "no " + q.req.Type + " config matches "
	switch {
	case q.dec.Host != nil:
		return fault.New(fault.NoMatch, what+"host "+q.dec.Host.Ref.String()+
			"; give one a selector that holds for it, or default: true")
	case q.policy.Isolate:
		return fault.New(fault.NoMatch, what+q.client()+", which is no known host; create a BareMetalHost with this address,"+
			" or a config with default: true in the namespace "+match.DefaultNamespace)
	}
	return fault.New(fault.NoMatch, what+q.client()+
		", which is no known host; create a BareMetalHost with this address, or a config with default: true")
}

// client is the client's address in a sentence.
func (q *question) client() string {
	if !q.addr.IsValid() {
		return "a client without an address"
	}
	return q.addr.String()
}
