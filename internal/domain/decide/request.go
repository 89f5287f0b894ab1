// Package decide decides about the requests of machines. The sender of a request and its
// claims identify a host, the host has a config and an image, the config an artifact.
// Serving, explaining and planning all call it. It uses no clock, network or disk.
package decide

import "glowplug/internal/domain/identity"

// Limit names the clients for which nothing is looked up, after too many guesses.
type Limit uint8

// The limits. After guesses from a network its unknown machines are limited, and its hosts
// are not.
const (
	Unlimited Limit = iota
	StrangersLimited
	AllLimited
)

// IPXE is the Type of a Request for a script or an image.
const IPXE = "ipxe"

// Request is the request of one machine.
type Request struct {
	// Type is the endpoint: "ignition", "kickstart" or "ipxe".
	Type   string
	Caller identity.Caller
	Claims identity.Claims
	// Accept is the Accept header as it was sent; "" where there is none.
	Accept string
	// UserAgent is the User-Agent header. Some clients read other Ignition versions than
	// their Accept header names, and are recognised by it.
	UserAgent string
	// ClaimLimit and ImageLimit are the limits for looking up claims and images.
	ClaimLimit, ImageLimit Limit
	// Gone is closed when the client has gone away; nil: never. Requests wait only for
	// the rendering of a template.
	Gone <-chan struct{}
}
