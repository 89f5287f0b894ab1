package decide

import (
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
)

// What a source is told that has guessed too much. Nothing is looked up for it, so that
// it is the same whatever was guessed.
var (
	ClaimsLimited = fault.New(fault.Unavailable,
		"too many claims from here did not hold; leave them out, or ask again in a minute")
	ImagesLimited = fault.New(fault.Unavailable,
		"too many images were asked for from here that there are not; ask again in a minute")
)

// Unheld are the claims of a request that do not hold.
type Unheld struct {
	// Refused is true where one was refused.
	Refused bool
	// Ignored are those that name nobody, as Named returns them.
	Ignored []string
	// Known is true where a host asks nevertheless. Beside is the claim that alone tells
	// which, as of a machine behind NAT; "" where the network says it.
	Known  bool
	Beside string
}

// Any reports whether there is one.
func (u *Unheld) Any() bool { return u.Refused || len(u.Ignored) > 0 }

// Named are the claims that name a host, each with its kind.
func Named(c *identity.Claims) []string {
	var names []string
	for _, kind := range claimOrder {
		if value := valueOf(c, kind); value != "" {
			names = append(names, kind+" "+value)
		}
	}
	return names
}

// valueOf is what a request claims; "" where it makes no such claim.
func valueOf(c *identity.Claims, kind string) string {
	switch kind {
	case byMAC:
		if c.MAC != zeroMAC {
			return c.MAC.String()
		}
	case byIP:
		if c.IP.IsValid() {
			return c.IP.String()
		}
	case byUUID:
		return c.UUID
	case byHostname:
		return c.Hostname
	}
	return ""
}

// limited reports whether a limit is for who asks.
func (q *question) limited(l Limit) bool {
	if l == StrangersLimited {
		own, _ := q.ownHost()
		return own == nil
	}
	return l == AllLimited
}

// verifyOwn answers without looking up a claim. A host that the network identifies may claim
// what it is: that says nothing of others, and machines that boot next to one that
// guesses claim it always.
func (q *question) verifyOwn() *fault.Error {
	c := &q.req.Claims
	own, _ := q.ownHost()
	held := own != nil && (!c.IP.IsValid() || c.IP == q.addr) && (c.Role == "" || own.Labels[match.RoleLabel] == c.Role)
	for _, kind := range claimOrder {
		held = held && (!q.claims(kind) || kind == byIP || q.carries(own, kind))
	}
	if !held {
		return ClaimsLimited
	}
	return q.verify()
}
