package match

import (
	"net/netip"

	"glowplug/internal/domain/netaddr"
)

// RoleLabel is the label that Facts.Role overrides.
const RoleLabel = "role"

// Facts is what is known of a machine.
type Facts struct {
	MACs []netaddr.MAC
	IPs  []netip.Addr
	// Hostnames are in lower case, without a trailing dot.
	Hostnames []string
	Labels    map[string]string
	// Role is the role that the machine's request names; "": none. It is the first tier,
	// and overrides the label "role".
	Role string
	// Image is the config that the machine's image names; zero: none.
	Image Ref
}

// Label returns the value of a label; Role overrides the label "role".
func (f *Facts) Label(key string) (string, bool) {
	if f.Role != "" && key == RoleLabel {
		return f.Role, true
	}
	v, ok := f.Labels[key]
	return v, ok
}

// Offer is the set of configs that a machine may be given.
type Offer uint8

// The offers. Everywhere is the configs of the machine's own namespace, which go first, and those of
// the namespaces that are no islands. A machine of an island has OwnNamespace. Where there are
// islands, an unknown machine has DefaultsOnly: the defaults of the namespaces that are none.
const (
	Everywhere Offer = iota
	OwnNamespace
	DefaultsOnly
)

// Query asks for the config of one type for one machine.
type Query struct {
	// Type is the type of the config that is wanted.
	Type string
	// Namespace is the machine's own; "" where it has none.
	Namespace string
	Offer     Offer
	Facts
}
