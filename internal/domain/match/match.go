// Package match picks the config for a machine: facts against selectors give a
// winner and, where it is asked for, a trace of every candidate. It is pure.
package match

// Tier is the rule by which a config was chosen, in the order of precedence.
type Tier uint8

// The tiers. None means that nothing matched.
const (
	None Tier = iota
	Role
	MAC
	IP
	Hostname
	Labels
	Image
	Default
)

var tierNames = [...]string{"none", "role", "mac", "ip", "hostname", "labels", "image", "default"}

// String is the tier's name as X-Glowplug-Match gives it.
func (t Tier) String() string { return tierNames[t] }
