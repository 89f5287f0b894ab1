package ignition

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// version is a spec version. A part that a client leaves out, as in "version=1",
// is 0.
type version struct {
	major, minor, patch uint16
	pre                 string
}

// Oldest and Newest bound the spec versions of configs that can be stored.
const (
	Oldest = "2.0.0"
	Newest = "3.6.0"
)

// parseVersion reads "3", "3.4", "3.4.0" or "3.4.0-experimental", without
// allocating. Digits stand without leading zeros.
func parseVersion(s string) (v version, parts int, ok bool) {
	s, v.pre, ok = strings.Cut(s, "-")
	if ok && v.pre == "" {
		return version{}, 0, false
	}
	for _, part := range [...]*uint16{&v.major, &v.minor, &v.patch} {
		digits, rest, more := strings.Cut(s, ".")
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || len(digits) > 1 && digits[0] == '0' {
			return version{}, 0, false
		}
		*part = uint16(n)
		parts++
		if !more {
			return v, parts, true
		}
		s = rest
	}
	return version{}, 0, false
}

// release orders versions without regard to a pre-release.
func (v version) release() uint64 {
	return uint64(v.major)<<32 | uint64(v.minor)<<16 | uint64(v.patch)
}

func (v version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.pre != "" {
		s += "-" + v.pre
	}
	return s
}

// VersionOf returns the spec version that a valid config names, and "" where it
// names none.
func VersionOf(config []byte) string {
	var stub struct{ Ignition struct{ Version string } }
	if json.Unmarshal(config, &stub) != nil {
		return ""
	}
	return stub.Ignition.Version
}

// IsExperimental reports whether a spec version is one that may still change, so
// that only clients of exactly this version take it.
func IsExperimental(version string) bool { return strings.Contains(version, "-") }
