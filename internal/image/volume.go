package image

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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

	holders

	mu sync.Mutex
	// seen is when the readers with a name had the volume last.
	seen map[string]time.Time
	// overlays makes the image with arguments set, once for all readers with the same
	// options.
	overlays *simplelru.LRU[string, func() (*iso.Overlay, error)]
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

// overlay returns the image with these options, made now or before.
func (v *Volume) overlay(o iso.Options) (*iso.Overlay, error) {
	key := fmt.Sprintf("%q %q %q", o.Args, o.BaseURL, o.FilesURL)
	v.mu.Lock()
	if v.overlays == nil { // the error is of a size below 1
		v.overlays, _ = simplelru.NewLRU[string, func() (*iso.Overlay, error)](maxOverlays, nil)
	}
	overlay, ok := v.overlays.Get(key)
	if !ok {
		overlay = sync.OnceValues(func() (*iso.Overlay, error) { return v.Image.Customize(o) })
		v.overlays.Add(key, overlay)
	}
	v.mu.Unlock()
	return overlay()
}
