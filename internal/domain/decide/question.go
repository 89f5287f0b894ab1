package decide

import (
	"cmp"
	"net/netip"
	"strings"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// question is a request that is being decided.
type question struct {
	decider *Decider
	view    model.View
	req     *Request
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
	q := question{decider: d, view: view, req: req, addr: req.Caller.Addr}
	if d.opts.Policy.Neighbors != identity.NeighborsOff {
		q.neighbor, q.former = req.Caller.MAC, req.Caller.Former
	}
	return q
}

// client returns the client's address for a sentence.
func client(addr netip.Addr) string {
	if !addr.IsValid() {
		return "an unknown address"
	}
	return addr.String()
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
	q.notice(ReasonClaimRefused, h, kind+" "+client(q.addr), "a request from "+q.who()+" was refused: "+sentence)
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
	q.notice(ReasonClaimIgnored, q.dec.Host, claim.kind+" "+client(q.addr),
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

// ignored names the claims that were ignored and says why, for the end of a sentence.
func (q *question) ignored() string {
	ignoresAll := q.decider.opts.Policy.Claims == identity.Deny && !q.req.Caller.Believed
	if named := Named(&q.req.Claims); len(named) > 0 && ignoresAll {
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
