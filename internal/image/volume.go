package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/iso"
)

// maxOverlays bounds the overlays of one image that are kept for the next disk.
const maxOverlays = 64

// Volume is one state of an image file, open. It stays open for as long as
// somebody holds it, whatever takes its place in the directory.
type Volume struct {
	file *os.File
	id   atomic.Pointer[identity] // in which the digest was computed
	// Path is below the ISO directory.
	Path  string
	Image *iso.Image
	// bootFiles are the kernels and the initial RAM disks in it.
	bootFiles []iso.BootFile
	// TellsConfig is true where a kernel argument in the file tells the system where its config is.
	TellsConfig bool
	SHA256      string

	// doubted is set once the file was seen to differ from id: nothing that is read of
	// it is delivered until its digest has been computed again. spoiled is set where
	// that is another one; it stays.
	doubted, spoiled atomic.Bool
	// disks counts those that are given out. wasRead is set if there were any when the
	// file was seen to have changed.
	disks   atomic.Int64
	wasRead atomic.Bool

	holders

	mu sync.Mutex
	// seen is when the readers with a name had the volume last.
	seen map[string]time.Time
	// overlays makes the image with arguments set, once for all readers with the same
	// options.
	overlays *simplelru.LRU[string, func() (customized, error)]
}

// customized is an image with arguments set.
type customized struct {
	*iso.Overlay
	// canReplace is true where the arguments have the placeholder of a token, which each boot replaces.
	canReplace bool
}

var errClosed = errors.New("the image was closed")

// holders counts the uses of open files, which are closed after the last one.
type holders struct {
	mu    sync.Mutex
	count int
}

// hold keeps the files open until drop.
func (h *holders) hold() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return errClosed
	}
	h.count++
	return nil
}

func (h *holders) drop(closeFiles func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count--; h.count > 0 {
		return nil
	}
	return closeFiles()
}

// Size is the size of the file, in bytes.
func (v *Volume) Size() int64 { return v.id.Load().Size }

// Drop ends one use of the volume; nil has none.
func (v *Volume) Drop() error {
	if v == nil {
		return nil
	}
	return v.holders.drop(v.file.Close)
}

// FindsConfig reports whether an argument of the image as it is served tells its system where its config is.
func (v *Volume) FindsConfig(o *iso.Overlay) bool {
	return v.TellsConfig || slices.ContainsFunc(o.Args(), iso.TellsConfig)
}

// maxSeen bounds the readers that are remembered of a volume.
const maxSeen = 1 << 14

// rememberReader notes that a reader has the volume, or had it until now.
func (v *Volume) rememberReader(reader string, now time.Time) {
	if reader == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil || len(v.seen) >= maxSeen {
		v.seen = map[string]time.Time{}
	}
	v.seen[reader] = now
}

// hadBy is when a reader had the volume last.
func (v *Volume) hadBy(reader string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[reader]
}

// overlay returns the image with these options, and with a token in the URLs of its arguments; "": there
// is none. An image is customized once for all tokens, unless it has a part of one in each of two places.
func (v *Volume) overlay(o iso.Options, token string) (*iso.Overlay, error) {
	if token == "" {
		made, err := v.customize(o, false)
		return made.Overlay, err
	}
	args := o.Args
	o.Args = boottoken.Add(args, o.BaseURL, boottoken.Placeholder)
	made, err := v.customize(o, true)
	switch {
	case err != nil:
		return nil, err
	case made.canReplace:
		return made.Replace(boottoken.Placeholder, token), nil
	}
	o.Args = boottoken.Add(args, o.BaseURL, token)
	made, err = v.customize(o, false)
	return made.Overlay, err
}

// customize returns the image with these options, made now or before.
func (v *Volume) customize(o iso.Options, hasPlaceholder bool) (customized, error) {
	key := fmt.Sprintf("%q %q %q", o.Args, o.BaseURL, o.FilesURL)
	v.mu.Lock()
	if v.overlays == nil { // the error is of a size below 1
		v.overlays, _ = simplelru.NewLRU[string, func() (customized, error)](maxOverlays, nil)
	}
	overlay, ok := v.overlays.Get(key)
	if !ok {
		overlay = sync.OnceValues(func() (customized, error) {
			made, err := v.Image.Customize(o)
			return customized{made, err == nil && hasPlaceholder && made.CanReplace(boottoken.Placeholder)}, err
		})
		v.overlays.Add(key, overlay)
	}
	v.mu.Unlock()
	return overlay()
}

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

// versionLength is the length of the part of a digest that distinguishes two images.
const versionLength = 12

// versionOf is a digest as it is used in paths.
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
	return iso.Flatcar
}

// TellsConfig reports whether a kernel argument of a CD-ROM with these files tells the system where its config
// is: the default ones do.
func (s *Set) TellsConfig(spec *v1.ISCSICdromSpec) bool {
	return spec.WantsDefaultKernelArgs() || slices.ContainsFunc(spec.KernelArgs, iso.TellsConfig)
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
