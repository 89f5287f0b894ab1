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
	// neighbor is the client's entry in the neighbour table, where there is one
	// and it is about the machine that is asked for.
	neighbor netaddr.MAC
	// former is the entry's earlier hardware address, where it has changed lately.
	former netaddr.MAC
	// role is the role that was asked for and is granted.
	role string
	// mac and hostname are claims that count as facts although no host has them.
	mac      netaddr.MAC
	hostname string
}

// configQuestion is a request for a config.
type configQuestion struct{ question }

// bootQuestion is a request for a boot script or an image.
type bootQuestion struct{ question }

// newQuestion returns a request that is yet to be decided.
func newQuestion(d *Decider, view snapshot.View, req *Request) question {
	q := question{Decider: d, view: view, req: req, addr: req.Caller.Addr}
	if d.opts.Policy.Neighbors != identity.NeighborsOff {
		q.neighbor, q.former = req.Caller.MAC, req.Caller.Former
	}
	return q
}

// client is the client's address in a sentence.
func (q *question) client() string {
	if !q.addr.IsValid() {
		return "a client without an address"
	}
	return q.addr.String()
}
