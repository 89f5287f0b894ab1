// Package decide decides what machines are given. The sender of a request and its
// claims lead to a host, the host to a config and to an image, the config to an
// artifact. Serving, explaining and planning all call it. It uses no clock, network
// or disk.
package decide

import "glowplug/internal/domain/identity"

// Limit says for whom nothing is looked up, since too much was guessed.
type Limit uint8

// The limits. Where somebody in a network has guessed, its strangers are limited and its
// hosts are not.
const (
	Unlimited Limit = iota
	StrangersLimited
	AllLimited
)

// IPXE is the Type of a Request for a script or an image.
const IPXE = "ipxe"

// Request is the request of one machine.
type Request struct {
	// Type is "ignition", "kickstart" or "ipxe": the endpoint that was asked.
	Type   string
	Caller identity.Caller
	Claims identity.Claims
	// Accept is the Accept header as it was sent; "" where there is none.
	Accept string
	// UserAgent is the User-Agent header, by which some clients are known that
	// read other spec versions than their Accept header says.
	UserAgent string
	// ClaimLimit and ImageLimit say for whom no claim, and no image, is looked up.
	ClaimLimit, ImageLimit Limit
	// Gone is closed when who asks waits no longer; nil: never. Only a template
	// that is yet to be rendered is waited for.
	Gone <-chan struct{}
}
