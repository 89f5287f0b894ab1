package decide

import (
	"net/netip"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// question is a request that is being decided.
type question struct {
	*Decider
	view snapshot.View
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
}

// configQuestion is a request for a config.
type configQuestion struct{ question }

// bootQuestion is a request for a boot script or an image.
type bootQuestion struct{ question }

// newQuestion returns a request before its decision.
func newQuestion(d *Decider, view snapshot.View, req *Request) question {
	q := question{Decider: d, view: view, req: req, addr: req.Caller.Addr}
	if d.opts.Policy.Neighbors != identity.NeighborsOff {
		q.neighbor, q.former = req.Caller.MAC, req.Caller.Former
	}
	return q
}

// client returns the client's address for a sentence.
func (q *question) client() string {
	if !q.addr.IsValid() {
		return "a client without an address"
	}
	return q.addr.String()
}
