package image

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"glowplug/internal/domain/coreos"
)

// ErrBadImage is wrapped by the errors for a file whose content is not of the kind that it is uploaded or
// downloaded as.
var ErrBadImage = errors.New("the image is not taken")

// peeked is how much of the beginning of a file is looked at: enough for the mark in a
// kernel of s390x.
const peeked = 0x10008 + 6

// artifacts has, by its role, how a file has to begin.
var artifacts = map[string]struct {
	begins func(head []byte) bool
	like   string
}{
	coreos.Kernel:    {isKernel, "a kernel of x86, arm64 or s390x, an EFI or an ELF program"},
	coreos.Initramfs: {isInitramfs, "a cpio archive, as it is or compressed"},
	coreos.Rootfs:    {isRootfs, "a squashfs or EROFS image, or a cpio archive"},
}

// CheckArtifact looks whether a file is what its role says. Whoever describes a release
// names a digest and a place; what has that digest may still be anything that the server
// can reach, and machines would be given it. The error has nothing of the content.
func CheckArtifact(role string, content io.ReaderAt, size int64) error {
	a, ok := artifacts[role]
	if !ok {
		return fmt.Errorf("%w: a set has no %s", ErrBadImage, role)
	}
	head := make([]byte, min(size, peeked))
	if _, err := io.ReadFull(io.NewSectionReader(content, 0, size), head); err != nil {
		return err
	}
	if !a.begins(head) {
		return fmt.Errorf("%w: its %s does not begin like %s", ErrBadImage, role, a.like)
	}
	return nil
}

func isKernel(head []byte) bool {
	return isBareKernel(head) || isBareKernel(unpacked(head))
}

func isBareKernel(head []byte) bool {
	switch {
	case hasAt(head, 0x202, "HdrS"): // x86, Documentation/arch/x86/boot.rst of Linux
	case hasAt(head, 0x38, "ARM\x64"): // Documentation/arch/arm64/booting.rst
	case hasAt(head, 0x10008, "S390EP"): // arch/s390/include/asm/setup.h
	case hasAt(head, 0, "\x7fELF"): // ppc64le
	case hasAt(head, 0, "MZ") && len(head) >= 0x40: // for EFI, zboot among them
		return hasAt(head, int(binary.LittleEndian.Uint32(head[0x3c:])), "PE\x00\x00")
	default:
		return false
	}
	return true
}

// compressions are what Linux unpacks an initramfs of, gzip apart (lib/decompress.c).
var compressions = []string{
	"BZh", "\x5d\x00\x00", "\xfd7zXZ\x00", "\x89LZO\x00", "\x02\x21\x4c\x18", "\x28\xb5\x2f\xfd",
}

func isInitramfs(head []byte) bool {
	compressed := slices.ContainsFunc(compressions, func(magic string) bool { return hasAt(head, 0, magic) })
	return compressed || isCPIO(head) || isCPIO(unpacked(head))
}

func isRootfs(head []byte) bool {
	return hasAt(head, 0, "hsqs") || hasAt(head, 1024, "\xe2\xe1\xf5\xe0") || isInitramfs(head)
}

// isCPIO reports whether it is an archive of the two forms that Linux reads.
func isCPIO(head []byte) bool { return hasAt(head, 0, "070701") || hasAt(head, 0, "070702") }

func hasAt(head []byte, at int, magic string) bool {
	return at >= 0 && at <= len(head) && bytes.HasPrefix(head[at:], []byte(magic))
}

// unpacked is the beginning of what is compressed with gzip; empty where it is not.
func unpacked(head []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	inner := make([]byte, peeked)
	n, _ := io.ReadFull(r, inner) // the rest of it is not there
	return inner[:n]
}

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
