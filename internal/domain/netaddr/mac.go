package netaddr

import (
	"encoding/hex"
	"fmt"
)

// MAC is an EUI-48 hardware address. It is comparable, so that it can be a map key.
type MAC [6]byte

// ParseMAC reads aa:bb:cc:dd:ee:ff, aa-bb-cc-dd-ee-ff, aabb.ccdd.eeff or
// aabbccddeeff, in any case. The separators of one address are all the same.
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

// macDigits copies the twelve digits of s, whatever separates them.
func macDigits(s string, digits *[12]byte) bool {
	group := 0 // digits between separators; 0: none
	switch len(s) {
	case 12:
	case 14:
		group = 4
	case 17:
		group = 2
	default:
		return false
	}
	sep := byte('.')
	if group == 2 {
		sep = s[2]
		if sep != ':' && sep != '-' {
			return false
		}
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

// clip keeps a quoted value short enough for a log line or an error.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
