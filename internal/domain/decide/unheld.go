package decide

import (
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
)

// The answers to a source that has guessed too often. Nothing is looked up for it, so the
// answers do not depend on the guess.
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
	// Ignored are those that no host has, as Named returns them.
	Ignored []string
	// Known is true where the machine is a known host nevertheless. Beside is the claim
	// that identifies it, as of a machine behind NAT; "" where the network does.
	Known  bool
	Beside string
}

// Any reports whether there is one.
func (u *Unheld) Any() bool { return u.Refused || len(u.Ignored) > 0 }

// Named returns the claims that identify a host, each with its kind.
func Named(c *identity.Claims) []string {
	var names []string
	for _, claim := range claims {
		if claim.present(c) {
			names = append(names, claim.named(c))
		}
	}
	return names
}

// named returns the claim of a request with its kind.
func (k *claim) named(c *identity.Claims) string { return k.kind + " " + k.text(c) }
