// Package match picks the config for a machine: facts against selectors give a
// winner and, where it is asked for, a trace of every candidate. It is pure.
package match

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/netaddr"
)

// Ref names an object.
type Ref struct{ Namespace, Name string }

// String is namespace/name.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Compare orders by namespace, then name.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name))
}

// Label is a key and its value.
type Label struct{ Key, Value string }

// Rule is the part of a config that decides which machines it matches. It is immutable.
type Rule struct {
	Ref
	// Type is the config's type: a query finds rules of one type.
	Type string
	// Created breaks ties: the older goes first.
	Created time.Time
	// Role is the config's own label "role". It counts only with an empty Selector: a config
	// with a selector is for these machines, not for a role.
	Role     string
	Selector Selector
	// Config is the caller's; matching does not use it.
	Config any
}

// Compare is the order of ties: older creation, then namespace, then name.
func (r *Rule) Compare(o *Rule) int {
	return cmp.Or(r.Created.Compare(o.Created), r.Ref.Compare(o.Ref))
}

// compareLabels is the order within the tier Labels: more labels and expressions go first.
func compareLabels(a, b *Rule) int {
	return cmp.Or(b.Selector.requirements()-a.Selector.requirements(), a.Compare(b))
}

// Selector says which machines a rule is for: an OR of its fields.
type Selector struct {
	MACs []netaddr.MAC
	// MACPrefixes are the beginnings of hardware addresses.
	MACPrefixes []netaddr.MACPrefix
	// Prefixes are masked; an address is a prefix of its full length.
	Prefixes []netip.Prefix
	// Hostnames are in lower case, without a trailing dot.
	Hostnames []string
	// Labels must all hold; sorted by key.
	Labels []Label
	// Expressions must all hold, together with Labels.
	Expressions []Expression
	Default     bool
}

// IsEmpty reports whether the selector selects no machine at all; a rule with
// such a selector is found by role or image only.
func (s *Selector) IsEmpty() bool {
	return len(s.MACs) == 0 && len(s.MACPrefixes) == 0 && len(s.Prefixes) == 0 && len(s.Hostnames) == 0 &&
		s.requirements() == 0 && !s.Default
}

// requirements is the number of labels and expressions.
func (s *Selector) requirements() int { return len(s.Labels) + len(s.Expressions) }

// Ties reports whether two rules match the same machines in the same way, so that only their
// age decides between them.
func (r *Rule) Ties(o *Rule) bool {
	key := r.tieKey()
	return key != "" && key == o.tieKey()
}

// tieKey is equal for the rules that tie with each other; "": the rule ties with none. Each string is quoted, so that
// two different selectors have two keys.
func (r *Rule) tieKey() string {
	s := &r.Selector
	if !s.IsEmpty() {
		return fmt.Sprintf("%q %q %v %v %v %q %q %q %t",
			r.Type, r.Namespace, s.MACs, s.MACPrefixes, s.Prefixes, s.Hostnames, s.Labels, s.Expressions, s.Default)
	}
	if r.Role == "" {
		return ""
	}
	return fmt.Sprintf("%q %q role %q", r.Type, r.Namespace, r.Role)
}

// ParseSelector reads the fields of a selector as they are written in an
// object. The error names the field that cannot be read.
func ParseSelector(labels map[string]string, expressions []metav1.LabelSelectorRequirement,
	hostnames, ips, macs []string, isDefault bool) (Selector, error) {
	s := Selector{Default: isDefault}
	var err error
	if s.MACs, s.MACPrefixes, err = parseMACs(macs); err != nil {
		return Selector{}, err
	}
	if s.Expressions, err = parseExpressions(expressions); err != nil {
		return Selector{}, err
	}
	if s.Prefixes, err = parseAll("matchIPs", ips, netaddr.ParsePrefix); err != nil {
		return Selector{}, err
	}
	if s.Hostnames, err = parseAll("matchHostnames", hostnames, netaddr.ParseHostname); err != nil {
		return Selector{}, err
	}
	if len(labels) > 0 {
		s.Labels = make([]Label, 0, len(labels))
		for k, v := range labels {
			s.Labels = append(s.Labels, Label{k, v})
		}
		slices.SortFunc(s.Labels, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	}
	return s, nil
}

// parseMACs reads hardware addresses, and those that end with a star as prefixes.
func parseMACs(values []string) (macs []netaddr.MAC, prefixes []netaddr.MACPrefix, err error) {
	for i, value := range values {
		if strings.HasSuffix(value, "*") {
			var p netaddr.MACPrefix
			p, err = netaddr.ParseMACPrefix(value)
			prefixes = append(prefixes, p)
		} else {
			var m netaddr.MAC
			m, err = netaddr.ParseMAC(value)
			macs = append(macs, m)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("selector.matchMACs[%d]: %w", i, err)
		}
	}
	return Unique(macs), Unique(prefixes), nil
}

// parseAll reads the values of a field, each once.
func parseAll[T comparable](field string, values []string, parse func(string) (T, error)) ([]T, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := make([]T, 0, len(values))
	for i, value := range values {
		v, err := parse(value)
		if err != nil {
			return nil, fmt.Errorf("selector.%s[%d]: %w", field, i, err)
		}
		out = append(out, v)
	}
	return Unique(out), nil
}

// Unique removes repeated values from a list, which it may change.
func Unique[T comparable](list []T) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		isRepeated := seen[v]
		seen[v] = true
		return isRepeated
	})
}

// Tier is the kind of match by which a config was chosen, in the order of precedence.
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

// Tiers returns all tiers but None, in the order of precedence.
func Tiers() []Tier { return []Tier{Role, MAC, IP, Hostname, Labels, Image, Default} }

// String is the tier's name as X-Glowplug-Match gives it.
func (t Tier) String() string { return tierNames[t] }
