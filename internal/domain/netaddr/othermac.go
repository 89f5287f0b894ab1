package netaddr

import (
	"fmt"
	"strings"
)

// IsOtherMAC reports whether a text is a hardware address of 8, 9 or 20 bytes with separators: an EUI-64 or a port
// of InfiniBand, also behind its type as in PXELINUX's notation. It is not compared with those of Ethernet.
func IsOtherMAC(s string) bool {
	switch len(s) {
	case 3*8 - 1, 3*9 - 1, 3*20 - 1:
	default:
		return false
	}
	for i := range len(s) {
		if i%3 == 2 {
			if s[i] != s[2] || s[i] != ':' && s[i] != '-' {
				return false
			}
		} else if !strings.Contains("0123456789abcdefABCDEF", s[i:i+1]) {
			return false
		}
	}
	return true
}

// ParseOtherMAC returns an address for which IsOtherMAC is true in lower case with colons. The all-zero ones name no
// card and are refused.
func ParseOtherMAC(s string) (string, error) {
	switch {
	case !IsOtherMAC(s):
		return "", fmt.Errorf("%q is not a hardware address of 8, 9 or 20 bytes", clip(s))
	case strings.Trim(s, "0:-") == "":
		return "", fmt.Errorf("%q is not the hardware address of one card: it is all zero", clip(s))
	}
	return strings.ToLower(strings.ReplaceAll(s, "-", ":")), nil
}

// ParseAnyMAC reads what ParseMAC or ParseOtherMAC reads, and returns it in lower case with colons.
func ParseAnyMAC(s string) (string, error) {
	if IsOtherMAC(s) {
		return ParseOtherMAC(s)
	}
	m, err := ParseMAC(s)
	if err != nil {
		return "", err
	}
	return m.String(), nil
}
