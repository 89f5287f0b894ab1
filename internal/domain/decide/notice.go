package decide

import (
	"net/netip"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// who names the client in the message of an event.
func (q *question) who() string {
	if q.neighbor == zeroMAC {
		return q.client()
	}
	return q.client() + " (" + q.neighbor.String() + ")"
}

func (q *question) notice(reason string, h *snapshot.Host, key, message string) {
	from := sourceOf(q.addr, q.neighbor)
	q.dec.Notices = append(q.dec.Notices, Notice{Reason: reason, Host: h, Key: key, Message: message, From: from})
}

// refuse refuses a claim: the client gets the sentence, the host an event.
func (q *question) refuse(h *snapshot.Host, kind, sentence string) *fault.Error {
	q.notice(ReasonClaimRefused, h, kind+" "+q.client(), "a request from "+q.who()+" was refused: "+sentence)
	q.dec.Unheld.Refused = true
	return fault.New(fault.Refused, sentence)
}

// ignore adds the notice of a claim that no host has.
func (q *question) ignore(claim *claim) {
	named := claim.named(&q.req.Claims)
	q.dec.Unheld.Ignored = append(q.dec.Unheld.Ignored, named)
	q.notice(ReasonClaimIgnored, q.dec.Host, claim.kind+" "+q.client(),
		q.who()+" claims the "+named+", which no BareMetalHost has; the claim was ignored")
}

// unknown adds the notice of a machine that is no host.
func (q *question) unknown() {
	what := "its " + q.req.Type + " config"
	if q.req.Type == IPXE {
		what = "what to boot"
	}
	q.notice(ReasonUnknownHost, nil, q.who(), q.who()+" asks for "+what+
		" and is no known host; create a BareMetalHost with its address")
}

// NeighborChanged returns the notice that the hardware address behind the address of a
// host's machine was another one a short time ago.
func NeighborChanged(h *snapshot.Host, client netip.Addr, mac, former netaddr.MAC) Notice {
	change := client.String() + " changed from " + former.String() + " to " + mac.String()
	return Notice{
		Reason: ReasonNeighborChanged, Host: h, Key: change, From: sourceOf(client, mac),
		Message: "the hardware address behind " + change + " within the last minute, or since the machine connected",
	}
}
