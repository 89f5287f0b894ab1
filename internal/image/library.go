// Package image keeps the images that are served now: it opens the files of ISCSICdroms,
// and gives machines disks with kernel arguments set. A volume stays open, and its bytes
// the same, for as long as somebody reads it.
package image

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
)

// Ref names an ISCSICdrom.
type Ref = model.Ref

const (
	// DefaultSettle is how long a file has to be left alone before it is read.
	DefaultSettle = 2 * time.Second
	// DefaultLinger is how long an image stays open after another has taken its place: a
	// machine that has begun to boot one comes back for its root file system, over a
	// connection of its own.
	DefaultLinger = 30 * time.Minute
	// readerPause is how soon a reader comes back for the image that it had.
	readerPause = 2 * time.Minute
)

// Options are the parts of a Library.
type Options struct {
	// Dir holds the ISO files (--iso-dir); it is made if it is missing. Empty: there are
	// no images.
	Dir string
	// HTTPURL is this server as machines reach it: ${glowplug} in an argument.
	HTTPURL string
	// Shared is true where other servers look after the same CD-ROMs.
	Shared bool
	// Settle and Linger are DefaultSettle and DefaultLinger where they are 0.
	Settle, Linger time.Duration
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Library is the images that are served now. Its methods are safe for concurrent use.
// Before Put there are no disks.
type Library struct {
	opts    Options
	root    *os.Root // nil without a directory
	digests *digests
	// source is what an image is read through.
	source func(*os.File) io.ReaderAt

	due    *feed.Feed[Due]
	mu     sync.Mutex
	images map[Ref]*served
	loaded bool
}

// New opens the directory. The error names the fault of it.
func New(opts Options) (*Library, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Settle == 0 {
		opts.Settle = DefaultSettle
	}
	if opts.Linger == 0 {
		opts.Linger = DefaultLinger
	}
	l := &Library{
		opts: opts, images: map[Ref]*served{}, due: feed.New(Due{}),
		source: func(f *os.File) io.ReaderAt { return f },
	}
	if opts.Dir != "" {
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("the ISO directory: %w", err)
		}
		root, err := os.OpenRoot(opts.Dir)
		if err != nil {
			return nil, fmt.Errorf("the ISO directory: %w", err)
		}
		l.root = root
		closeFolder(root, opts.Logger)
	}
	l.digests = newDigests(l.root, opts.Registerer, opts.Logger)
	return l, nil
}

// closeFolder closes the server's own folder to other users of the machine: earlier
// releases made it open. Its files cannot be reached then, and keep their modes: a file
// whose mode changes gets another time of change, and would be read again for its
// digest.
func closeFolder(root *os.Root, log *slog.Logger) {
	info, err := root.Stat(OwnDir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return // nothing was received yet, or it is closed
	}
	if err := root.Chmod(OwnDir, 0o700); err != nil {
		log.Warn("the folder of received images is open to other users and cannot be closed: give it mode 0700",
			"folder", OwnDir, "error", Cause(err))
	}
}

// Close closes all files but those of disks that are still in use.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, im := range l.images {
		errs = append(errs, im.content.drop())
		im.content = Content{}
		im.former.clear()
		for _, v := range im.doubted {
			errs = append(errs, v.Drop())
		}
		im.doubted = nil
	}
	if l.root != nil {
		errs = append(errs, l.root.Close())
	}
	return errors.Join(errs...)
}

// Root is the ISO directory; nil where there is none.
func (l *Library) Root() *os.Root { return l.root }

// Settle is how long a file has to be left alone before it is read.
func (l *Library) Settle() time.Duration { return l.opts.Settle }

// Due is an image that has to be reconciled after a pause: its file has changed under a reader, or its readers have.
// Without a name it is all images.
type Due struct {
	Ref   Ref
	Pause time.Duration
}

// Subscribe returns a subscription to the images that have to be reconciled.
func (l *Library) Subscribe() *feed.Subscription[Due] { return l.due.Subscribe() }

// Cdrom returns the latest state of a CD-ROM, nil where there is none. It must not be
// changed.
func (l *Library) Cdrom(ref Ref) *v1.ISCSICdrom {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil {
		return im.cdrom
	}
	return nil
}

// Refs returns the names of all CD-ROMs, in no order.
func (l *Library) Refs() []Ref {
	return l.refs(func(*served) bool { return true })
}

// Targets returns the names of the CD-ROMs that there are disks of, in no order.
func (l *Library) Targets() []Ref {
	return l.refs(func(im *served) bool { return im.content.Volume != nil && im.content.Failure == nil })
}

func (l *Library) refs(include func(*served) bool) []Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refs []Ref
	for ref, im := range l.images {
		if im.cdrom != nil && include(im) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// IsSet reports whether a CD-ROM is several files and no ISO image.
func (l *Library) IsSet(ref Ref) bool {
	cdrom := l.Cdrom(ref)
	return cdrom != nil && Format(cdrom) == v1.FormatPXE
}

// Files opens the files of a CD-ROM of format pxe, of a version or, with "", of the
// one that is served now. The caller must Release them. The error is a fault.Error.
func (l *Library) Files(ref Ref, version string) (*Files, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	im := l.images[ref]
	if im == nil || im.cdrom == nil {
		return nil, l.absentLocked(ref)
	}
	content := im.content
	if version != "" && content.Version() != version {
		if content = im.former.find(version); content.Set == nil {
			return nil, goneBy(ref, version)
		}
	}
	s := content.Set
	if content.Failure != nil {
		return nil, unavailable(ref, content.Failure)
	}
	if s == nil {
		return nil, unavailable(ref, errors.New("it has no image yet"))
	}
	if err := s.hold(); err != nil {
		return nil, unavailable(ref, err)
	}
	return &Files{ref: ref, set: s}, nil
}

// Prepare reports why a host cannot be given an image with its own kernel arguments and the token of
// its boot. The patches of the image are kept for the host, which is about to ask for it.
func (l *Library) Prepare(image *model.Image, args []string, token string) error {
	if image.PXE { // its arguments stand in the script
		files, err := l.Files(image.Ref, "")
		if err == nil {
			files.Release()
		}
		return err
	}
	disk, err := l.DiskOf(image.Ref, "", args, token)
	if err == nil {
		disk.Release()
	}
	return err
}

// absentLocked is the answer where there is no CD-ROM.
func (l *Library) absentLocked(ref Ref) error {
	if !l.loaded {
		return fault.New(fault.Unavailable, "the images have not been read yet")
	}
	return fault.New(fault.NoMatch, fmt.Sprintf("there is no ISCSICdrom %s", ref))
}

// goneBy is the error for a machine that asks for a former version of an image.
func goneBy(ref Ref, version string) error {
	return fault.New(fault.NoMatch, fmt.Sprintf("ISCSICdrom %s has no version %s any more: boot again", ref, version))
}

func unavailable(ref Ref, cause error) error {
	return fault.New(fault.Unavailable, fmt.Sprintf("the image of ISCSICdrom %s cannot be read: %v", ref, cause))
}

// unset is the error where the arguments of an image, and those of a host, cannot be set.
func unset(ref Ref, own []string, cause error) error {
	if len(own) == 0 {
		return unavailable(ref, cause)
	}
	return fault.New(fault.Unavailable,
		fmt.Sprintf("the kernel arguments of the host cannot be set in ISCSICdrom %s: %v", ref, cause))
}

// Journal takes the progress of boots. Its methods do not block.
type Journal interface {
	// KernelRead is called when a host begins to read the kernel of an image.
	KernelRead(host *model.Host, image Ref, path string)
	// InitrdRead is KernelRead for the initial RAM disk.
	InitrdRead(host *model.Host, image Ref, path string)
	// RootfsRead is KernelRead for the root file system.
	RootfsRead(host *model.Host, image Ref, path string)
}

// Progress is the progress of one boot: it notes in the journal when a host reads the
// kernel and the initial RAM disk of an image. It takes no lock and reads no file, so
// that no read of a disk waits for another.
type Progress struct {
	host    *model.Host
	image   Ref
	journal Journal
	files   []iso.BootFile
	// kernel and initrd are true once they have been read, done is true once both have.
	kernel, initrd, done atomic.Bool
}

// Progress returns the progress of a host that boots from the disk; nil is an unknown
// host, whose boot is not recorded.
func (d *Disk) Progress(host *model.Host, journal Journal) *Progress {
	return &Progress{host: host, image: d.image.ref, journal: journal, files: d.volume.bootFiles}
}

// Read notes that n bytes at off of the disk are read.
func (p *Progress) Read(off, n int64) {
	if p.host == nil || p.done.Load() {
		return
	}
	for i := range p.files {
		if file := &p.files[i]; file.Holds(off, n) {
			p.fileRead(file.Kind, file.Path)
		}
	}
	p.done.Store(p.kernel.Load() && p.initrd.Load())
}

func (p *Progress) fileRead(kind, path string) {
	switch {
	case kind == iso.Kernel && !p.kernel.Swap(true):
		p.journal.KernelRead(p.host, p.image, path)
	case kind == iso.Initrd && !p.initrd.Swap(true):
		p.journal.InitrdRead(p.host, p.image, path)
	}
}
