package identity

import (
	"net/url"
	"strings"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/netaddr"
)

// Any reports whether the request says anything of itself: where it does not,
// there is nothing to believe or to refuse.
func (c *Claims) Any() bool {
	return c.MAC != (netaddr.MAC{}) || c.IP.IsValid() || c.UUID != "" || c.Hostname != "" || c.Role != ""
}

// The faults of a query. They never repeat the value: a query is not for the
// log, and an answer shows up in the console of the machine.
var (
	badMAC      = malformed("mac", "want six bytes such as ac:1f:6b:8a:a7:9c")
	badIP       = malformed("ip", "want an IPv4 or IPv6 address")
	badHostname = malformed("hostname", "want letters, digits, hyphens and dots")
	badUUID     = malformed("uuid", "want the form 4c4c4544-0042-3510-8056-b4c04f4e3132")
	badRole     = malformed("role", "want at most 63 letters, digits, hyphens, underscores and dots")
	badFormat   = malformed("format", "want raw")
	badSpec     = malformed("spec", "want an Ignition spec version such as 3.2.0")
)

func malformed(name, want string) *fault.Error {
	return fault.New(fault.Malformed, "the parameter "+name+" is malformed: "+want)
}

// ParseClaims reads the query of a machine. Keys that it does not know are
// ignored; an empty value, an unexpanded ${variable} of a boot loader and the
// placeholder that boards without a UUID report count as absent. Every other
// malformed value, and a key that is given again with another value, is
// Malformed with the name of the parameter. A semicolon is a character like any
// other, not a separator: what a proxy may read otherwise is refused, not guessed.
func ParseClaims(rawQuery string) (Claims, *fault.Error) {
	var c Claims
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		key, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "%+") {
			var err error
			if key, err = url.QueryUnescape(key); err != nil {
				continue // no key that is known reads so
			}
		}
		if err := c.set(key, value); err != nil {
			return Claims{}, err
		}
	}
	return c, nil
}

// set takes one parameter, its value still escaped.
func (c *Claims) set(key, escaped string) *fault.Error {
	switch key {
	case "mac":
		return take(&c.MAC, escaped, "mac", badMAC, netaddr.ParseMAC)
	case "ip":
		return take(&c.IP, escaped, "ip", badIP, netaddr.ParseIP)
	case "hostname":
		return take(&c.Hostname, escaped, "hostname", badHostname, netaddr.ParseHostname)
	case "uuid":
		return take(&c.UUID, escaped, "uuid", badUUID, parseUUID)
	case "role":
		return take(&c.Role, escaped, "role", badRole, parseRole)
	case "spec":
		return take(&c.Spec, escaped, "spec", badSpec, parseSpec)
	case "format":
		return take(&c.Raw, escaped, "format", badFormat, parseFormat)
	}
	return nil
}

// take unescapes and parses a value into field, unless it is absent.
func take[T comparable](field *T, escaped, name string, bad *fault.Error, parse func(string) (T, error)) *fault.Error {
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

// absent reports whether a value says nothing: it is empty, or holds a variable
// that the boot loader did not expand.
func absent(value string) bool {
	if value == "" {
		return true
	}
	_, rest, found := strings.Cut(value, "${")
	return found && strings.IndexByte(rest, '}') >= 0
}

func parseUUID(s string) (string, error) {
	if netaddr.IsPlaceholderUUID(s) {
		return "", nil
	}
	return netaddr.ParseUUID(s)
}

// parseRole takes what the value of a label can be, for that is what a role is.
func parseRole(s string) (string, error) {
	if len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return "", badRole
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return "", badRole
		}
	}
	return s, nil
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func parseFormat(s string) (bool, error) {
	if s != "raw" {
		return false, badFormat
	}
	return true, nil
}

// parseSpec takes what looks like a spec version; whether there is one is not for
// the query to say.
func parseSpec(s string) (string, error) {
	if len(s) > 32 || strings.Count(s, ".") != 2 {
		return "", badSpec
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '-' {
			return "", badSpec
		}
	}
	return s, nil
}
