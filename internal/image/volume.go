package image

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	SHA256    string

	// doubted is set once the file was seen to differ from id: nothing that is read of
	// it is delivered until its digest has been computed again. spoiled is set where
	// that is another one; it stays.
	doubted, spoiled atomic.Bool

	mu      sync.Mutex
	holders int
	// seen is when the readers with a name had the volume last.
	seen     map[string]time.Time
	overlays []*keptOverlay // the least recently used first
}

// keptOverlay is the image with arguments set, made once for all who ask for the
// same.
type keptOverlay struct {
	key   string
	once  sync.Once
	image *iso.Overlay
	err   error
}

var errClosed = errors.New("the image was closed")

// hold keeps the volume open until Drop.
func (v *Volume) hold() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holders == 0 {
		return errClosed
	}
	v.holders++
	return nil
}

// Size is the size of the file, in bytes.
func (v *Volume) Size() int64 { return v.id.Load().Size }

// Drop ends one use of the volume; nil has none.
func (v *Volume) Drop() error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holders--; v.holders == 0 {
		return v.file.Close()
	}
	return nil
}

// maxSeen bounds the readers that are remembered of a volume.
const maxSeen = 1 << 14

// note remembers that a reader has the volume, or had it until now.
func (v *Volume) note(reader string, now time.Time) {
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

// overlay returns the image with these options, made now or before.
func (v *Volume) overlay(o iso.Options) (*iso.Overlay, error) {
	key := fmt.Sprintf("%q %q %q", o.Args, o.BaseURL, o.FilesURL)
	v.mu.Lock()
	i := slices.IndexFunc(v.overlays, func(o *keptOverlay) bool { return o.key == key })
	found := &keptOverlay{key: key}
	if i >= 0 {
		found = v.overlays[i]
		v.overlays = slices.Delete(v.overlays, i, i+1)
	} else if len(v.overlays) == maxOverlays {
		v.overlays = slices.Delete(v.overlays, 0, 1)
	}
	v.overlays = append(v.overlays, found)
	v.mu.Unlock()
	found.once.Do(func() { found.image, found.err = v.Image.Customize(o) })
	return found.image, found.err
}
