package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"glowplug/internal/image/download"
)

const (
	// DigestsFile keeps the digests over restarts.
	DigestsFile = OwnDir + "/digests.json"
	maxDigests  = 4096
	copyBuffer  = 1 << 20
)

// digests remembers the SHA-256 of files by their identity, so that none is read
// whole for a second time.
type digests struct {
	root    *os.Root
	hashed  prometheus.Counter
	logger  *slog.Logger
	reading singleflight.Group

	mu    sync.Mutex
	known []digest // the oldest first
}

type digest struct {
	identity
	SHA256 string `json:"sha256"`
}

func newDigests(root *os.Root, reg prometheus.Registerer, logger *slog.Logger) *digests {
	d := &digests{root: root, logger: logger, hashed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "glowplug_images_hashed_bytes_total",
		Help: "Bytes of ISO files that were read for their digest.",
	})}
	if reg != nil {
		reg.MustRegister(d.hashed)
	}
	if root == nil {
		return d
	}
	if text, err := root.ReadFile(DigestsFile); err == nil {
		if err := json.Unmarshal(text, &d.known); err != nil {
			logger.Warn("the remembered digests cannot be read; files are read again", "file", DigestsFile, "error", err)
			d.known = nil
		}
	}
	return d
}

// of returns the digest of an open file, in hex. Of several callers with the same
// file, one reads it.
func (d *digests) of(ctx context.Context, f io.ReaderAt, id identity) (string, error) {
	if sum, ok := d.find(id); ok {
		return sum, nil
	}
	sum, err, _ := d.reading.Do(fmt.Sprint(id), func() (any, error) {
		if sum, ok := d.find(id); ok {
			return sum, nil
		}
		h := sha256.New()
		r := &download.Counted{Context: ctx, Reader: io.NewSectionReader(f, 0, id.Size), Count: d.hashed.Add}
		n, err := io.CopyBuffer(download.WriterOnly{Writer: h}, r, make([]byte, copyBuffer))
		if err == nil && n < id.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	})
	return sum.(string), err
}

func (d *digests) find(id identity) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.known, func(e digest) bool { return e.identity == id }); i >= 0 {
		return d.known[i].SHA256, true
	}
	return "", false
}

// remember keeps the digest of a file that is not written any more.
func (d *digests) remember(id identity, sum string) {
	if _, ok := d.find(id); ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = append(d.known, digest{id, sum})
	d.known = slices.Delete(d.known, 0, max(0, len(d.known)-maxDigests))
	text, err := json.Marshal(d.known)
	if err == nil {
		err = download.Folder{Root: d.root}.Replace(DigestsFile, text)
	}
	if err != nil {
		// An ISO directory may be read-only where nothing is uploaded.
		d.logger.Debug("digests are not remembered over a restart", "error", err)
	}
}

// identity identifies a state of a file: a file with the same one has
// the same content.
type identity struct {
	Inode    uint64 `json:"inode"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	// Changed is when anything of the file was changed last, its time of modification
	// among it: that can be set back, this cannot.
	Changed int64 `json:"changed"`
}

func identityOf(info fs.FileInfo) identity {
	inode, changed := details(info)
	return identity{inode, info.Size(), info.ModTime().UnixNano(), changed}
}

// unchanged reports whether an open file is in the state that it was in. That its last
// name has gone, because another file was given it, changes no byte.
func unchanged(f *os.File, was identity) (bool, error) {
	now, links, err := stateOf(f)
	if err == nil && links == 0 {
		now.Changed = was.Changed
	}
	return err == nil && now == was, err
}
