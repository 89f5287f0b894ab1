// Package netaddr parses what identifies a machine on a network, in every
// notation that firmware, DHCP servers and people use: hardware addresses, IP
// addresses, prefixes, host names and system UUIDs. It is pure.
package netaddr

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// ParseIP reads an IPv4 or IPv6 address. IPv4-mapped IPv6 is IPv4; a zone is
// refused, for it means nothing on another machine.
func ParseIP(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", clip(s))
	}
	return a.Unmap(), nil
}

// ParsePrefix reads a CIDR, or an address as the prefix that holds it alone.
// Bits behind the prefix length are cleared.
func ParsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := ParseIP(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address or a CIDR such as 192.168.10.0/24", clip(s))
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%q is not a CIDR: an IPv4-mapped prefix is at least 96 bits long", clip(s))
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// ParseHostname checks a host name (RFC 1123, with the underscore that some
// DHCP clients send), in any case, and gives it in lower case without a
// trailing dot. A newline, a space or a "$" never passes.
func ParseHostname(s string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("%q is not a host name: want 1 to 253 characters", clip(s))
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf("%q is not a host name: each part has 1 to 63 characters and no hyphen at its ends", clip(s))
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is not a host name: only letters, digits, hyphens, underscores and dots", clip(s))
		}
	}
	return name, nil
}

// FirstLabel is a host name up to its first dot.
func FirstLabel(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// Network returns the address that counts for a bound per client: an IPv4 address for
// itself, an IPv6 address as its /64, which one machine owns. A link-local IPv6 address
// counts for itself, with its zone: all machines of a network share one /64 there.
func Network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is4() || addr.IsLinkLocalUnicast() {
		return addr
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return prefix.Addr()
}

// NetworkText is how a Network is written: an IPv6 /64 as such.
func NetworkText(network netip.Addr) string {
	if network.Is6() && !network.IsLinkLocalUnicast() {
		return network.String() + "/64"
	}
	return network.String()
}

// Source is where requests come from, for limits and logs: a network as Network returns it, a hardware address of the
// neighbour table, or both. The zero Source is not known.
type Source struct {
	Addr netip.Addr
	MAC  MAC
}

// SourceOf returns what a client is limited by: its hardware address where that is known, since one card can have
// many addresses, else its network.
func SourceOf(addr netip.Addr, mac MAC) Source {
	if mac != (MAC{}) {
		return Source{MAC: mac}
	}
	return Source{Addr: Network(addr)}
}

// MAC is an EUI-48 hardware address. It is comparable, so that it can be a map key.
type MAC [6]byte

// ParseMAC reads aa:bb:cc:dd:ee:ff, aa-bb-cc-dd-ee-ff, aabb.ccdd.eeff, aabb-ccdd-eeff,
// aabbcc-ddeeff or aabbccddeeff, in any case, and PXELINUX's 01-aa-bb-cc-dd-ee-ff, which begins
// with the type of Ethernet. The separators of one address are all the same.
// The multicast, broadcast and all-zero addresses name no card and are refused.
func ParseMAC(s string) (MAC, error) {
	var digits [12]byte
	if !macDigits(s, &digits) {
		return MAC{}, fmt.Errorf("%q is not a hardware address: want six bytes such as aa:bb:cc:dd:ee:ff", clip(s))
	}
	var m MAC
	if _, err := hex.Decode(m[:], digits[:]); err != nil {
		return MAC{}, fmt.Errorf("%q is not a hardware address: want hexadecimal digits", clip(s))
	}
	if m == (MAC{}) || m[0]&1 == 1 {
		return MAC{}, fmt.Errorf("%q is not the hardware address of one card: it is all zero or a multicast address", clip(s))
	}
	return m, nil
}

// macGroups has, by the length of a text, the number of digits between its separators; 0: it has none.
var macGroups = map[int]int{12: 0, 13: 6, 14: 4, 17: 2}

// macDigits copies the twelve digits of s, whatever separates them.
func macDigits(s string, digits *[12]byte) bool {
	if rest, found := strings.CutPrefix(s, "01-"); found && len(rest) == 17 {
		s = rest
	}
	group, known := macGroups[len(s)]
	if !known {
		return false
	}
	sep := byte('-')
	if group > 0 {
		sep = s[group]
	}
	if sep != '-' && !(sep == ':' && group == 2) && !(sep == '.' && group == 4) {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if group > 0 && i%(group+1) == group {
			if s[i] != sep {
				return false
			}
			continue
		}
		digits[n] = s[i]
		n++
	}
	return n == 12
}

// String returns the colon form in lower case.
func (m MAC) String() string {
	const digits = "0123456789abcdef"
	var b [17]byte
	for i, v := range m {
		b[i*3], b[i*3+1] = digits[v>>4], digits[v&15]
		if i < 5 {
			b[i*3+2] = ':'
		}
	}
	return string(b[:])
}

// MACPrefix is the first bytes of hardware addresses. The bytes after them are zero.
type MACPrefix struct {
	MAC   MAC
	Bytes int
}

// ParseMACPrefix reads the first one to five bytes of a hardware address and a star, such as
// 52:54:00:* or 52-54-00-*, in any case.
func ParseMACPrefix(s string) (MACPrefix, error) {
	refused := fmt.Errorf("%q is not the beginning of a hardware address: want 1 to 5 bytes and a star, such as 52:54:00:*",
		clip(s))
	head, isPrefix := strings.CutSuffix(s, "*")
	if !isPrefix || len(head)%3 != 0 || head == "" || len(head) > 15 {
		return MACPrefix{}, refused
	}
	p := MACPrefix{Bytes: len(head) / 3}
	sep := head[2]
	for i := range p.Bytes {
		if _, err := hex.Decode(p.MAC[i:i+1], []byte(head[3*i:3*i+2])); err != nil || head[3*i+2] != sep {
			return MACPrefix{}, refused
		}
	}
	if !strings.ContainsRune(":-", rune(sep)) || p.MAC[0]&1 == 1 {
		return MACPrefix{}, refused
	}
	return p, nil
}

// Prefix returns the first n bytes of the address.
func (m MAC) Prefix(n int) MACPrefix {
	p := MACPrefix{Bytes: n}
	copy(p.MAC[:n], m[:n])
	return p
}

// String returns the colon form in lower case, with a star.
func (p MACPrefix) String() string { return p.MAC.String()[:3*p.Bytes] + "*" }

// clip keeps a quoted value short enough for a log line or an error.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
