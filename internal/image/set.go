package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/iso"
)

// Set is the kernel, the initramfs and the root file system of one release, open.
// It stays open for as long as somebody holds it.
type Set struct {
	// Sum is the digest over those of all files.
	Sum   string
	Files []*SetFile

	holders
}

// SetFile is a file of a set. It is stored in the manifest of a release.
type SetFile struct {
	Role string `json:"role"`
	// Name is that in the folder of its CD-ROM.
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`

	Size int64 `json:"-"`
	file *os.File
}

// SumOf returns the digest over those of all files.
func SumOf(files []SetFile) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %s\n", f.Role, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// versionLength is how much of a digest tells one image from the one before it.
const versionLength = 12

// versionOf is a digest as it stands in paths.
func versionOf(sha256 string) string { return sha256[:min(versionLength, len(sha256))] }

// Drop ends one use of the set; nil has none.
func (s *Set) Drop() error {
	if s == nil {
		return nil
	}
	return s.holders.drop(func() error {
		var errs []error
		for _, f := range s.Files {
			errs = append(errs, f.file.Close())
		}
		return errors.Join(errs...)
	})
}

// Distro is the distribution of the files: those with a root file system of their own
// are CoreOS's.
func (s *Set) Distro() string {
	if slices.ContainsFunc(s.Files, func(f *SetFile) bool { return f.Role == coreos.Rootfs }) {
		return iso.CoreOS
	}
	return "Flatcar"
}

// Files are the files of an image that is no CD-ROM, as one machine reads them.
// Their bytes never change until Release.
type Files struct {
	ref     Ref
	set     *Set
	release sync.Once
}

// Ref names the CD-ROM.
func (f *Files) Ref() Ref { return f.ref }

// ETag names the bytes of all files together, in quotes.
func (f *Files) ETag() string { return `"` + f.set.Sum + `"` }

// Open returns a file by its role.
func (f *Files) Open(role string) (file *os.File, size int64, ok bool) {
	for _, each := range f.set.Files {
		if each.Role == role {
			return each.file, each.Size, true
		}
	}
	return nil, 0, false
}

// Release ends the use of the files. It may be called again.
func (f *Files) Release() { f.release.Do(func() { _ = f.set.Drop() }) }
