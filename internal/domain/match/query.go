package match

import (
	"net/netip"

	"glowplug/internal/domain/netaddr"
)

// RoleLabel is the label that Facts.Role overlays.
const RoleLabel = "role"

// DefaultNamespace is the namespace whose defaults are offered to unknown
// machines under isolation.
const DefaultNamespace = "default"

// Facts is what is known of a machine.
type Facts struct {
	MACs []netaddr.MAC
	IPs  []netip.Addr
	// Hostnames are in lower case, without a trailing dot.
	Hostnames []string
	Labels    map[string]string
	// Role is the role that was asked for explicitly; "" is none. It is looked
	// for first and overlays the label "role".
	Role string
	// Image is the config that the machine's image names; zero: none.
	Image Ref
}

// Label is the value of a label, with Role laid over it.
func (f *Facts) Label(key string) (string, bool) {
	if f.Role != "" && key == RoleLabel {
		return f.Role, true
	}
	v, ok := f.Labels[key]
	return v, ok
}

// holds reports whether all labels of a selector hold.
func (f *Facts) holds(labels []Label) bool {
	for _, l := range labels {
		if v, ok := f.Label(l.Key); !ok || v != l.Value {
			return false
		}
	}
	return true
}

// Offer is the set of configs that a machine may be given.
type Offer uint8

// The offers. Everywhere is the machine's own namespace first, then the others.
// OwnNamespace is a known machine's under isolation, DefaultsOnly an unknown
// one's: the defaults of the namespace "default".
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
