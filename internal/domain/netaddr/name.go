package netaddr

import (
	"fmt"
	"regexp"
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
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is not a host name: only letters, digits, hyphens and dots", clip(s))
		}
	}
	return name, nil
}

// FirstLabel is a host name up to its first dot.
func FirstLabel(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// The placeholders that boards without a UUID report.
const (
	allZeros = "00000000-0000-0000-0000-000000000000"
	allOnes  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseUUID checks an SMBIOS system UUID in its 8-4-4-4-12 form and returns it in
// lower case. The placeholders are refused.
func ParseUUID(s string) (string, error) {
	u := strings.ToLower(s)
	if !uuidForm.MatchString(u) {
		return "", fmt.Errorf("%q is not a system UUID: want the form 4c4c4544-0042-3510-8056-b4c04f4e3132", clip(s))
	}
	if IsPlaceholderUUID(u) {
		return "", fmt.Errorf("%q is no machine's own UUID: boards without one report it", clip(s))
	}
	return u, nil
}

// IsPlaceholderUUID reports whether s is what boards without a UUID report: all
// zeros or all ones, in the 8-4-4-4-12 form. A query that carries it says nothing.
func IsPlaceholderUUID(s string) bool { return s == allZeros || strings.EqualFold(s, allOnes) }
