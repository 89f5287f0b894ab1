package netaddr

import (
	"fmt"
	"strings"
)

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
		for i := 0; i < len(label); i++ {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("%q is not a host name: only letters, digits, hyphens and dots", clip(s))
			}
		}
	}
	return name, nil
}

// FirstLabel is a host name up to its first dot.
func FirstLabel(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// ParseUUID checks an SMBIOS system UUID in its 8-4-4-4-12 form and gives it in
// lower case. All zeros and all ones, which boards without a UUID report, are
// refused.
func ParseUUID(s string) (string, error) {
	u := strings.ToLower(s)
	ok := len(u) == 36
	for i := 0; ok && i < len(u); i++ {
		c := u[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			ok = c == '-'
		} else {
			ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')
		}
	}
	if !ok {
		return "", fmt.Errorf("%q is not a system UUID: want the form 4c4c4544-0042-3510-8056-b4c04f4e3132", clip(s))
	}
	if isPlaceholder(u) {
		return "", fmt.Errorf("%q is no machine's own UUID: boards without one report it", clip(s))
	}
	return u, nil
}

// IsPlaceholderUUID reports whether s is what boards without a UUID report: all
// zeros or all ones, in the 8-4-4-4-12 form. A query that carries it says nothing.
func IsPlaceholderUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && isPlaceholder(strings.ToLower(s))
}

func isPlaceholder(lower string) bool {
	for i := 0; i < len(lower); i++ {
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen != (lower[i] == '-') ||
			!hyphen && (lower[i] != lower[0] || lower[i] != '0' && lower[i] != 'f') {
			return false
		}
	}
	return true
}
