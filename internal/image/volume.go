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

// volume is one state of an image file, open. It stays open for as long as
// somebody holds it, whatever takes its place in the directory.
type volume struct {
	file *os.File
	id   atomic.Pointer[identity] // in which the digest was computed
	path string                   // below the ISO directory
	img  *iso.Image
	// bootFiles are the kernels and the initial RAM disks in it.
	bootFiles []iso.BootFile
	sha256    string

	// doubted is set once the file was seen to differ from id: nothing that is read of
	// it is delivered until its digest has been computed again. spoiled is set where
	// that is another one; it stays.
	doubted, spoiled atomic.Bool

	mu      sync.Mutex
	holders int
	// seen is when the readers with a name had the volume last.
	seen     map[string]time.Time
	overlays []*overlay // the least recently used first
}

// overlay is the image with arguments set, made once for all who ask for the
// same.
type overlay struct {
	key   string
	once  sync.Once
	image *iso.Overlay
	err   error
}

var errClosed = errors.New("the image was closed")

// hold keeps the volume open until drop.
func (v *volume) hold() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holders == 0 {
		return errClosed
	}
	v.holders++
	return nil
}

func (v *volume) drop() error {
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
func (v *volume) note(reader string, now time.Time) {
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
func (v *volume) hadBy(reader string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[reader]
}

// with gives the image with these options, made now or before.
func (v *volume) with(o iso.Options) (*iso.Overlay, error) {
	key := fmt.Sprintf("%q %q %q", o.Args, o.BaseURL, o.FilesURL)
	v.mu.Lock()
	i := slices.IndexFunc(v.overlays, func(o *overlay) bool { return o.key == key })
	found := &overlay{key: key}
	if i >= 0 {
		found = v.overlays[i]
		v.overlays = slices.Delete(v.overlays, i, i+1)
	} else if len(v.overlays) == maxOverlays {
		v.overlays = slices.Delete(v.overlays, 0, 1)
	}
	v.overlays = append(v.overlays, found)
	v.mu.Unlock()
	found.once.Do(func() { found.image, found.err = v.img.Customize(o) })
	return found.image, found.err
}
