package image

// Headers of the answers to an upload.
const (
	// HeaderOffset is how many bytes of an unfinished upload there are.
	HeaderOffset = "Upload-Offset"
	// HeaderLength is how many there will be, where that is known.
	HeaderLength = "Upload-Length"
	// HeaderDigest is the SHA-256 of those that there are, in hex: a client that
	// goes on compares it with the beginning of its own file.
	HeaderDigest = "X-Glowplug-Partial-Sha256"
)
