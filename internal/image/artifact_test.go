package image

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"glowplug/internal/domain/coreos"
)

// secret is what a metadata service would answer.
const secret = `{"Code": "Success", "AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "hunter2"}`

// at returns a file with a mark at a place, and content behind it.
func at(offset int, mark string) []byte {
	b := make([]byte, offset+len(mark)+4096)
	copy(b[offset:], mark)
	return b
}

func zipped(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

func TestArtifacts(t *testing.T) {
	efi := at(0x100, "PE\x00\x00")
	copy(efi, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(efi[0x3c:], 0x100)
	far := bytes.Clone(efi)
	binary.LittleEndian.PutUint32(far[0x3c:], 0xfffffff0)
	const kernel, initramfs, rootfs = coreos.Kernel, coreos.Initramfs, coreos.Rootfs
	for name, c := range map[string]struct {
		content []byte
		roles   string
	}{
		"bzImage":           {at(0x202, "HdrS"), kernel},
		"arm64":             {at(0x38, "ARM\x64"), kernel},
		"arm64 in gzip":     {zipped(at(0x38, "ARM\x64")), kernel},
		"EFI":               {efi, kernel},
		"ppc64le":           {at(0, "\x7fELF\x02\x01"), kernel},
		"s390x":             {at(0x10008, "S390EP"), kernel},
		"s390x in gzip":     {zipped(at(0x10008, "S390EP")), kernel},
		"cpio":              {at(0, "070701"), initramfs + rootfs},
		"cpio with sums":    {at(0, "070702"), initramfs + rootfs},
		"cpio in gzip":      {zipped(at(0, "070701")), initramfs + rootfs},
		"cpio in xz":        {at(0, "\xfd7zXZ\x00"), initramfs + rootfs},
		"cpio in zstd":      {at(0, "\x28\xb5\x2f\xfd"), initramfs + rootfs},
		"cpio in lz4":       {at(0, "\x02\x21\x4c\x18"), initramfs + rootfs},
		"squashfs":          {at(0, "hsqs"), rootfs},
		"EROFS":             {at(1024, "\xe2\xe1\xf5\xe0"), rootfs},
		"nothing":           {nil, ""},
		"a byte":            {[]byte{0x1f}, ""},
		"keys":              {[]byte(secret), ""},
		"keys in gzip":      {zipped([]byte(secret)), ""},
		"a private key":     {[]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE"), ""},
		"a page":            {[]byte("<!DOCTYPE html>" + strings.Repeat(" ", 100_000)), ""},
		"DOS":               {at(0, "MZ"), ""},
		"MZ alone":          {[]byte("MZ"), ""},
		"EFI, but where":    {far, ""},
		"half a gzip":       {zipped(at(0x38, "ARM\x64"))[:12], ""},
		"a mark too late":   {at(0x203, "HdrS"), ""},
		"an older cpio":     {at(0, "070707"), ""},
		"gzip without cpio": {zipped(bytes.Repeat([]byte("a"), 1<<20)), ""},
	} {
		for _, role := range []string{kernel, initramfs, rootfs} {
			err := CheckArtifact(role, bytes.NewReader(c.content), int64(len(c.content)))
			if want := strings.Contains(c.roles, role); want && err != nil || !want && !errors.Is(err, ErrBadImage) {
				t.Errorf("%s as %s: %v", name, role, err)
			}
		}
	}
	if err := CheckArtifact(coreos.Disk, bytes.NewReader(efi), int64(len(efi))); !errors.Is(err, ErrBadImage) {
		t.Error(err)
	}
}
