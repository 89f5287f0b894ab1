package image

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	iqnPrefix = "iqn.2026-11.dev.glowplug:"
	// maxIQN is the longest iSCSI name, RFC 7143 section 4.2.7.1.
	maxIQN = 223
)

// IQN is the target name of a CD-ROM: iqn.2026-11.dev.glowplug:<namespace>:<name>.
// A name that would be too long ends in a digest instead.
func IQN(ref Ref) string {
	iqn := iqnPrefix + ref.Namespace + ":" + ref.Name
	if len(iqn) <= maxIQN {
		return iqn
	}
	sum := sha256.Sum256([]byte(iqn))
	return iqn[:maxIQN-17] + "-" + hex.EncodeToString(sum[:8])
}
