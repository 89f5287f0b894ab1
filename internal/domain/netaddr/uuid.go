package netaddr

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseUUID checks an SMBIOS system UUID in its 8-4-4-4-12 form and returns it in
// lower case. All zeros and all ones, which boards without a UUID report, are refused.
func ParseUUID(s string) (string, error) {
	u := strings.ToLower(s)
	if !uuidForm.MatchString(u) {
		return "", fmt.Errorf("%q is not a system UUID: want the form 4c4c4544-0042-3510-8056-b4c04f4e3132", clip(s))
	}
	if key := KeyOfUUID(u); key.isRepeated() && (key[0] == 0 || key[0] == 0xff) {
		return "", fmt.Errorf("%q is no machine's own UUID: boards without one report it", clip(s))
	}
	return u, nil
}

// UUIDKey is what UUIDs are compared by. It is comparable, and zero for what is no UUID.
// SMBIOS has the first three groups of a UUID in little-endian order, and some firmware and
// programs write them in the other one: both forms have the same key.
type UUIDKey [16]byte

// KeyOfUUID returns the key of a UUID in the 8-4-4-4-12 form, in any case.
func KeyOfUUID(s string) UUIDKey {
	var k, swapped UUIDKey
	if len(s) != 36 {
		return UUIDKey{}
	}
	for i, at := range [...]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		pair := [2]byte{s[at], s[at+1]}
		if _, err := hex.Decode(k[i:i+1], pair[:]); err != nil {
			return UUIDKey{}
		}
	}
	for i, from := range [...]int{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15} {
		swapped[i] = k[from]
	}
	if string(swapped[:]) < string(k[:]) {
		return swapped
	}
	return k
}

// isRepeated reports whether all bytes are the same.
func (k UUIDKey) isRepeated() bool {
	for _, b := range k {
		if b != k[0] {
			return false
		}
	}
	return true
}

// placeholders are UUIDs that vendors left in the firmware of whole models.
var placeholders = func() map[UUIDKey]bool {
	keys := map[UUIDKey]bool{}
	for _, s := range []string{
		"03000200-0400-0500-0006-000700080009", // AMI's default, of many small boards
		"00010203-0405-0607-0809-0a0b0c0d0e0f",
		"01234567-89ab-cdef-0123-456789abcdef",
		"01234567-8910-1112-1314-151617181920",
		"00112233-4455-6677-8899-aabbccddeeff",
		"11111111-2222-3333-4444-555555555555",
		"12345678-1234-1234-1234-123456789012",
		"12345678-1234-1234-1234-123456789abc",
		"12345678-1234-5678-1234-567812345678",
		"12345678-1234-5678-90ab-cddeefaabbcc",
		"12345678-90ab-cdef-1234-567890abcdef",
		"4c4c4544-0000-2010-8020-80c04f202020", // Dell, with a service tag of spaces
	} {
		keys[KeyOfUUID(s)] = true
	}
	return keys
}()

// IsPlaceholderUUID reports whether a UUID in the 8-4-4-4-12 form is one that many machines
// report, since their vendor set none: it identifies nobody.
func IsPlaceholderUUID(s string) bool {
	k := KeyOfUUID(s)
	return (k.isRepeated() || placeholders[k]) && uuidForm.MatchString(strings.ToLower(s))
}
