// Package identity has the sender of a request and the claims in it, and parses claims.
package identity

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"

	"glowplug/internal/domain/arch"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/netaddr"
)

// Any reports whether the request has a claim.
func (c *Claims) Any() bool {
	return c.MAC != (netaddr.MAC{}) || c.OtherMAC != "" || c.IP.IsValid() || c.UUID != "" || c.Hostname != "" || c.Role != ""
}

// The faults of a query. They never repeat the value: it must not appear in the log or on
// the console of the machine.
var (
	badMAC      = malformed("mac", "want six bytes such as ac:1f:6b:8a:a7:9c")
	badIP       = malformed("ip", "want an IPv4 or IPv6 address")
	badHostname = malformed("hostname", "want letters, digits, hyphens, underscores and dots")
	badUUID     = malformed("uuid", "want the form 4c4c4544-0042-3510-8056-b4c04f4e3132")
	badRole     = malformed("role", "want at most 63 letters, digits, hyphens, underscores and dots")
	badFormat   = malformed("format", "want raw")
	badSpec     = malformed("spec", "want an Ignition spec version such as 3.2.0")
)

func malformed(name, want string) *fault.Error {
	return fault.New(fault.Malformed, "the parameter "+name+" is malformed: "+want)
}

// ParseClaims reads the query of a machine. Unknown keys are ignored. An empty value, an
// unexpanded ${variable} of a boot loader and a placeholder of boards without a UUID of
// their own count as absent. Every other malformed value, and a key with two different values, is
// Malformed with the name of the parameter. A semicolon is a normal character, and not a
// separator as for some proxies.
func ParseClaims(rawQuery string) (Claims, *fault.Error) {
	var c Claims
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		key, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "%+") {
			var err error
			if key, err = url.QueryUnescape(key); err != nil {
				continue // an unknown key
			}
		}
		if err := c.set(key, value); err != nil {
			return Claims{}, err
		}
	}
	return c, nil
}

// set parses one parameter; its value is escaped.
func (c *Claims) set(key, escaped string) *fault.Error {
	switch key {
	case "mac":
		return parseInto(&c.MAC, escaped, "mac", badMAC, c.parseMAC)
	case "ip":
		return parseInto(&c.IP, escaped, "ip", badIP, netaddr.ParseIP)
	case "hostname":
		return parseInto(&c.Hostname, escaped, "hostname", badHostname, netaddr.ParseHostname)
	case "uuid":
		return parseInto(&c.UUID, escaped, "uuid", badUUID, parseUUID)
	case "role":
		return parseInto(&c.Role, escaped, "role", badRole, parseRole)
	case boottoken.Parameter:
		if boottoken.IsToken(escaped) { // other values are of other programs
			c.Token = escaped
		}
	case "spec":
		return parseInto(&c.Spec, escaped, "spec", badSpec, parseSpec)
	case "arch", "buildarch": // as iPXE calls it
		c.Arch = cmp.Or(c.Arch, arch.Parse(escaped))
	case "format":
		return parseInto(&c.Raw, escaped, "format", badFormat, parseFormat)
	}
	return nil
}

// parseInto unescapes and parses a value into field, unless it is absent.
func parseInto[T comparable](
	field *T, escaped, name string, bad *fault.Error, parse func(string) (T, error),
) *fault.Error {
	if absent(escaped) {
		return nil
	}
	value := escaped
	if strings.ContainsAny(escaped, "%+") {
		var err error
		if value, err = url.QueryUnescape(escaped); err != nil {
			return bad
		}
		if absent(value) {
			return nil
		}
	}
	parsed, err := parse(value)
	if err != nil {
		return bad
	}
	var none T
	if *field != none && parsed != none && *field != parsed {
		return fault.New(fault.Malformed, "the parameter "+name+" is given more than once, with different values")
	}
	if parsed != none {
		*field = parsed
	}
	return nil
}

// absent reports whether a value is empty, or has a variable that the boot loader did not
// expand.
func absent(value string) bool {
	if value == "" {
		return true
	}
	_, rest, found := strings.Cut(value, "${")
	return found && strings.IndexByte(rest, '}') >= 0
}

// parseMAC sets OtherMAC to the first address of other hardware than Ethernet, and returns the other ones. Several of
// these are not malformed, as none has to identify a host.
func (c *Claims) parseMAC(s string) (netaddr.MAC, error) {
	if netaddr.IsOtherMAC(s) {
		other, _ := netaddr.ParseOtherMAC(s) // an all-zero address counts as absent
		c.OtherMAC = cmp.Or(c.OtherMAC, other)
		return netaddr.MAC{}, nil
	}
	return netaddr.ParseMAC(s)
}

func parseUUID(s string) (string, error) {
	if netaddr.IsPlaceholderUUID(s) {
		return "", nil
	}
	return netaddr.ParseUUID(s)
}

// parseRole accepts the values of labels, since a role is a label.
func parseRole(s string) (string, error) {
	if len(s) > 63 || strings.Trim(s, "-_.") != s || !isAlphanumericOr(s, "-_.") {
		return "", badRole
	}
	return s, nil
}

// isAlphanumericOr reports whether a value has only letters and digits of ASCII, and
// other characters.
func isAlphanumericOr(s, others string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(others, c))
	})
}

func parseFormat(s string) (bool, error) {
	if s != "raw" {
		return false, badFormat
	}
	return true, nil
}

// parseSpec accepts the form of a spec version. Whether the version exists is decided
// later.
func parseSpec(s string) (string, error) {
	if len(s) > 32 || strings.Count(s, ".") != 2 || !isAlphanumericOr(s, ".-") {
		return "", badSpec
	}
	return s, nil
}

// Caller is the sender of a request, as far as the network shows it.
type Caller struct {
	// Addr is the client: the peer, or behind trusted proxies the right-most
	// untrusted X-Forwarded-For entry. IPv4-mapped IPv6 is IPv4; there is no
	// zone. The zero Addr, which no host has, is a client that the proxies do not name.
	Addr netip.Addr
	// MAC is the client's entry in the neighbour table, or the one that it had when
	// its connection was accepted; zero where it has none, is not on-link, or came
	// through a proxy.
	MAC netaddr.MAC
	// Former is the hardware address that the client's entry had before MAC, where
	// it changed within ChangeWindow or since the connection was accepted; zero
	// where it did not.
	Former netaddr.MAC
	// Proxied is true where the peer is a trusted proxy.
	Proxied bool
	// ForgedForward is true where a peer that is no trusted proxy sent an
	// X-Forwarded-For, which was ignored.
	ForgedForward bool
	// Believed is true for a caller of the admin listener and an authenticated one:
	// all their claims are believed.
	Believed bool
}

// Claims are the claims in the query of a request. Zero values are absent.
type Claims struct {
	MAC netaddr.MAC
	// OtherMAC is a hardware address that is none of Ethernet: see netaddr.ParseOtherMAC.
	OtherMAC string
	IP       netip.Addr
	UUID     string // lower case
	Hostname string // lower case, no trailing dot
	Role     string
	// Raw is format=raw: the newest source instead of the artifact.
	Raw bool
	// Spec is the requested Ignition spec version, such as "3.2.0".
	Spec string
	// Token is the token of a boot. It identifies nobody.
	Token string
	// Arch is the architecture of the machine, "" if it is not known. It identifies nobody.
	Arch string
}

// Card is the hardware address of a network card: MAC or, where that is zero, OtherMAC.
type Card struct {
	MAC      netaddr.MAC
	OtherMAC string
}

// String returns the address in lower case with colons.
func (c Card) String() string {
	if c.OtherMAC != "" {
		return c.OtherMAC
	}
	return c.MAC.String()
}

// Mode is the treatment of claims (--identity-claims).
type Mode uint8

// The modes.
const (
	Verify Mode = iota
	Trust
	Deny
)

// NeighborMode is the use of the neighbour table (--neighbors).
type NeighborMode uint8

// The modes: Auto finds hosts and reports contradictions and changes, Enforce refuses
// them, NeighborsOff does not use the table.
const (
	NeighborsAuto NeighborMode = iota
	NeighborsEnforce
	NeighborsOff
)
