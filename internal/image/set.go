package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/iso"
	"glowplug/internal/streams"
)

// set is the kernel, the initramfs and the root file system of one release, open.
// It stays open for as long as somebody holds it.
type set struct {
	of origin
	// sum is the digest over those of all files.
	sum   string
	files []*setEntry

	mu      sync.Mutex
	holders int
}

// setEntry is a file of a set.
type setEntry struct {
	role, sha256 string
	file         *os.File
	id           identity
}

// versionLength is how much of a digest tells one image from the one before it.
const versionLength = 12

// versionOf is a digest as it stands in paths.
func versionOf(sha256 string) string { return sha256[:min(versionLength, len(sha256))] }

func (s *set) hold() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == 0 {
		return errClosed
	}
	s.holders++
	return nil
}

func (s *set) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders--; s.holders > 0 {
		return nil
	}
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// distro is what the files are of: those with a root file system of their own are
// CoreOS's.
func (s *set) distro() string {
	for _, f := range s.files {
		if f.role == streams.Rootfs {
			return iso.CoreOS
		}
	}
	return "Flatcar"
}

// is tells whether a set is of an entry of a manifest.
func (s *set) is(e *entry) bool { return s != nil && s.of == e.origin && s.sum == e.sum() }

// sum names the bytes of all files together.
func (e *entry) sum() string {
	h := sha256.New()
	for _, f := range e.Files {
		fmt.Fprintf(h, "%s %s\n", f.Role, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// openSet opens the files of a release and looks whether they are what they were
// when they came. The error is of the first that is not.
func (l *Library) openSet(ctx context.Context, cdrom *v1.ISCSICdrom, e *entry) (*set, error) {
	s := &set{of: e.origin, sum: e.sum(), holders: 1}
	for _, f := range e.Files {
		file, err := l.root.Open(path.Join(ownFolder(cdrom), f.Name))
		if err != nil {
			_ = s.drop()
			return nil, fmt.Errorf("its %s: %w", f.Role, plain(err))
		}
		found := &setEntry{role: f.Role, sha256: f.SHA256, file: file}
		s.files = append(s.files, found)
		info, err := file.Stat()
		if err == nil {
			found.id = identityOf(info)
			var sum string
			sum, err = l.digests.of(ctx, file, found.id)
			if err == nil && sum != f.SHA256 {
				err = errors.New("it has changed on the disk")
			}
			if err == nil {
				err = checkArtifact(f.Role, file, info.Size())
			}
		}
		if err != nil {
			_ = s.drop()
			return nil, fmt.Errorf("its %s: %w", f.Role, err)
		}
		l.digests.remember(found.id, f.SHA256)
	}
	return s, nil
}

// Files are the files of an image that is no CD-ROM, as one machine reads them.
// Their bytes never change until Release.
type Files struct {
	ref     Ref
	set     *set
	release sync.Once
}

// Files gives the files of a CD-ROM of format pxe, of a version or, with "", of the
// one that is served now. The caller must Release them. The error is a fault.Error.
func (l *Library) Files(ref Ref, version string) (*Files, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	im := l.shelf[ref]
	if im == nil || im.cdrom == nil {
		return nil, l.absent(ref)
	}
	s := im.set
	if version != "" && (s == nil || versionOf(s.sum) != version) {
		if s = im.former.set(version); s == nil {
			return nil, goneBy(ref, version)
		}
	} else if im.failure != nil {
		return nil, unavailable(ref, im.failure)
	}
	if s == nil {
		return nil, unavailable(ref, errors.New("it has no image yet"))
	}
	if err := s.hold(); err != nil {
		return nil, unavailable(ref, err)
	}
	return &Files{ref: ref, set: s}, nil
}

// goneBy says that an image has moved on since a machine was told of it.
func goneBy(ref Ref, version string) error {
	return fault.New(fault.NoMatch, fmt.Sprintf("ISCSICdrom %s has no version %s any more: boot again", ref, version))
}

// Ref names the CD-ROM.
func (f *Files) Ref() Ref { return f.ref }

// ETag names the bytes of all files together, in quotes.
func (f *Files) ETag() string { return `"` + f.set.sum + `"` }

// Open gives a file by its role.
func (f *Files) Open(role string) (file *os.File, size int64, ok bool) {
	for _, e := range f.set.files {
		if e.role == role {
			return e.file, e.id.Size, true
		}
	}
	return nil, 0, false
}

// Release ends the use of the files. It may be called again.
func (f *Files) Release() { f.release.Do(func() { _ = f.set.drop() }) }
