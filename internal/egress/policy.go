// Package egress guards what the server fetches for others: whoever may write an object
// that holds a URL must not reach what the server can reach. A policy, which the
// operator sets, is held against each address that is connected to, after the name was
// resolved and for every hop of a redirect.
package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// Policy says where may be fetched from. The zero value allows nowhere.
type Policy struct {
	// flag is the option that the policy is set with, for messages.
	flag string
	// public is true where public addresses need no entry.
	public          bool
	hosts, suffixes []string
	prefixes        []netip.Prefix
}

// Listed allows what a list of addresses, CIDRs, host names and "*." with a domain
// names. The flag is the option that the list comes from.
//
// A CIDR allows the addresses in it, by whatever name they are reached. A name allows
// what it resolves to. Neither allows a special address, such as a loopback one: that
// takes a CIDR which names it, by lying within the special range.
func Listed(flag string, entries []string) (Policy, error) {
	p := Policy{flag: flag}
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if prefix, err := netaddr.ParsePrefix(entry); err == nil {
			p.prefixes = append(p.prefixes, prefix.Masked())
			continue
		}
		domain, wild := strings.CutPrefix(entry, "*.")
		name, err := netaddr.ParseHostname(strings.TrimSuffix(domain, "."))
		if err != nil || numeric(name) {
			return Policy{}, fmt.Errorf("%q is neither an address, a CIDR, a host name nor *.domain", entry)
		}
		name = strings.ToLower(name)
		if wild {
			p.suffixes = append(p.suffixes, "."+name)
		} else {
			p.hosts = append(p.hosts, name)
		}
	}
	return p, nil
}

// PublicAnd allows all public addresses, and besides them those that a list of addresses
// and CIDRs names. It takes no host names: what a name resolves to is up to whoever runs
// its name server, who is not to decide which private address is fetched from.
func PublicAnd(flag string, entries []string) (Policy, error) {
	p := Policy{flag: flag, public: true}
	for _, entry := range entries {
		prefix, err := netaddr.ParsePrefix(strings.TrimSpace(entry))
		if err != nil {
			return Policy{}, fmt.Errorf("%q is neither an address nor a CIDR: "+
				"public hosts need no entry, and private ones are named by their addresses", entry)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p, nil
}

// numeric reports whether the last part of a name begins with a digit: such a name may
// be an address in disguise (127.1, 0177.0.0.1, 2130706433).
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// Nowhere reports whether nothing may be fetched at all.
func (p Policy) Nowhere() bool { return !p.public && len(p.hosts)+len(p.suffixes)+len(p.prefixes) == 0 }

// names reports whether a host is on the list by its name.
func (p Policy) names(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.Contains(p.hosts, host) ||
		slices.ContainsFunc(p.suffixes, func(suffix string) bool {
			return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
		})
}

// resolves reports whether it matters what a host resolves to. Where it does not, the
// resolver is not asked: a name in a question is a message, too.
func (p Policy) resolves(host string) bool { return p.public || len(p.prefixes) > 0 || p.names(host) }

// check says why an address that a host resolves to may not be connected to; nil: it
// may. An address by itself has itself as host.
func (p Policy) check(host string, addr netip.Addr) *RefusedError {
	addr = addr.Unmap().WithZone("")
	what := host
	if _, err := netip.ParseAddr(host); err != nil {
		what = "what " + host + " resolves to"
	}
	if s := special(addr); s != nil {
		named := func(prefix netip.Prefix) bool { return s.named(prefix) && prefix.Contains(addr) }
		if slices.ContainsFunc(p.prefixes, named) {
			return nil
		}
		return &RefusedError{what, fmt.Sprintf("is %s, which %s has to name as such: %[2]s=%s", s.what, p.flag, s.prefix)}
	}
	holds := func(prefix netip.Prefix) bool { return prefix.Contains(addr) }
	if slices.ContainsFunc(p.prefixes, holds) || p.names(host) {
		return nil
	}
	if !p.public {
		return p.unlisted(host)
	}
	if r := private(addr); r != nil {
		return &RefusedError{what, fmt.Sprintf("is %s, which %s has to name: %[2]s=%s", r.what, p.flag, r.prefix)}
	}
	return nil
}

// Behind says why a host that a proxy connects to may not be asked for, as a
// *RefusedError. Its address cannot be known: another name server may answer the proxy.
func (p Policy) Behind(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused := p.check(host, addr); refused != nil {
			return refused
		}
		return nil
	}
	if p.names(host) {
		return nil
	}
	refused := p.unlisted(host)
	refused.what = "behind a proxy a host's address is not known: " + refused.what
	return refused
}

func (p Policy) unlisted(host string) *RefusedError {
	return &RefusedError{host, fmt.Sprintf("may not be fetched from: %s does not name it (%[1]s=%s)", p.flag, host)}
}
