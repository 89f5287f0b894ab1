package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"

	v1 "glowplug/api/v1"
	"glowplug/internal/egress"
	"glowplug/internal/image/download"
	"glowplug/internal/store/snapshot"
)

// Ref names an ISCSICdrom.
type Ref = snapshot.Ref

const (
	// workers look after images at the same time. One that reads a file for its
	// digest, or receives one, does so by itself.
	workers = 4
	// maxDownloads and maxUploads bound what is received at the same time.
	maxDownloads = 3
	maxUploads   = 8
	// pollInterval is how often files are looked at for changes.
	pollInterval = 5 * time.Second
	// closeTimeout is how long Close waits for uploads that have been told to end.
	closeTimeout = 5 * time.Second
	// retryFirst and retryMax are the pauses after a look that failed for
	// another reason than the image.
	retryFirst = 200 * time.Millisecond
	retryMax   = time.Minute
)

// Recorder takes what happened to an object, for an Event.
type Recorder interface {
	Record(ref v1.ObjectReference, eventType, reason, message string)
}

// Options is what a Library is made of.
type Options struct {
	// Dir holds the ISO files (--iso-dir); it is made if it is missing. Empty:
	// only external CD-ROMs become Ready.
	Dir string
	// Store is the store of iscsicdroms, with keys "/iscsicdroms/<namespace>/<name>".
	Store storage.Interface
	// HTTPURL is this server as machines reach it: ${glowplug} in an argument.
	HTTPURL string
	// Portal is the address of the iSCSI target that clients are told.
	Portal netip.AddrPort
	// Recorder takes events of images that become ready or fail; nil: nobody.
	Recorder Recorder
	// Allow says where images may be downloaded from.
	Allow egress.Policy
	// Streams are the releases that images can be of; nil: there are none.
	Streams Streams
	// StreamsRead tells whether Streams have been read; nil: they have.
	StreamsRead func() bool
	// Keyring has the keys that images of streams have to be signed with; nil: their
	// digest is enough.
	Keyring *download.Keyring
	// Shared is true where other servers look after the same CD-ROMs.
	Shared bool
	// Deleted is told of a CD-ROM that was deleted, whose disks may still be read; nil:
	// nobody is. It must not block.
	Deleted func(Ref)
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Library is the images. Its methods are safe for concurrent use. Before Run
// has read the store there are no disks.
type Library struct {
	opts      Options
	root      *os.Root // nil without a directory
	client    *http.Client
	digests   *digests
	metrics   *metrics
	queue     workqueue.TypedRateLimitingInterface[Ref]
	downloads chan struct{}
	uploads   chan struct{}
	pace      pace

	// ctx ends with Run or Close: downloads and uploads under way.
	ctx        context.Context
	stop       context.CancelFunc
	background sync.WaitGroup

	mu     sync.Mutex
	shelf  map[Ref]*image
	loaded bool
}

// pace is how fast things are tried again, and what disks keep free.
type pace struct {
	poll     time.Duration
	settle   time.Duration // a file that changed later than this is still being written
	idle     time.Duration // a transfer without a byte for so long is over
	busy     time.Duration // a transfer that had a byte since is not to be disturbed
	soon     backoff       // after what may pass
	late     backoff       // after what hardly will
	tell     time.Duration // between two looks at how far a download is
	again    time.Duration // a reader that comes back so soon gets what it had
	linger   time.Duration // an image that another has taken the place of stays so long
	save     int64         // bytes between two checkpoints of a transfer
	reserve  uint64        // bytes of the disk that transfers leave free
	free     func(dir string) (uint64, error)
	source   func(*os.File) io.ReaderAt // what an image is read through
	diskFull func(err error) bool
}

func usualPace() pace {
	return pace{
		poll:     pollInterval,
		settle:   2 * time.Second,
		idle:     time.Minute,
		busy:     10 * time.Second,
		soon:     backoff{time.Second, 5 * time.Minute},
		late:     backoff{time.Minute, time.Hour},
		tell:     5 * time.Second,
		again:    2 * time.Minute,
		linger:   lingering,
		save:     64 << 20,
		reserve:  64 << 20,
		free:     freeSpace,
		source:   func(f *os.File) io.ReaderAt { return f },
		diskFull: isDiskFull,
	}
}

// New opens the directory. The error names what is wrong with it.
func New(opts Options) (*Library, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Deleted == nil {
		opts.Deleted = func(Ref) {}
	}
	l := &Library{
		opts:   opts,
		client: download.NewGuardedClient(opts.Allow, maxDownloads),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Ref](retryFirst, retryMax)),
		downloads: make(chan struct{}, maxDownloads),
		uploads:   make(chan struct{}, maxUploads),
		pace:      usualPace(),
		shelf:     map[Ref]*image{},
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
		l.tighten()
	}
	l.metrics = newMetrics(opts.Registerer, l)
	l.digests = newDigests(l.root, l.metrics, opts.Logger)
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Run follows the CD-ROMs and looks after their images until ctx ends; its
// error is always nil. Disks that were given out can be read until Close.
func (l *Library) Run(ctx context.Context) error {
	defer l.background.Wait()
	defer l.queue.ShutDown()
	defer l.stop()
	for range workers {
		l.background.Go(func() {
			for l.next() {
			}
		})
	}
	l.background.Go(func() { l.poll(l.ctx) })
	l.follow(ctx)
	return nil
}

// Close ends transfers and closes all files but those of disks that are still
// in use.
func (l *Library) Close() error {
	l.stop()
	l.queue.ShutDown()
	l.background.Wait()
	late := time.After(closeTimeout)
	for range maxUploads {
		select {
		case l.uploads <- struct{}{}: // one that saves how far it has come
		case <-late:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, im := range l.shelf {
		if im.current != nil {
			errs = append(errs, im.current.drop())
			im.current = nil
		}
		if im.set != nil {
			errs = append(errs, im.set.drop())
			im.set = nil
		}
		im.former.clear()
		for _, v := range im.doubted {
			errs = append(errs, v.drop())
		}
		im.doubted = nil
	}
	if l.root != nil {
		errs = append(errs, l.root.Close())
	}
	return errors.Join(errs...)
}

// Cdrom gives a CD-ROM as it was last seen, nil where there is none. It must not
// be changed.
func (l *Library) Cdrom(ref Ref) *v1.ISCSICdrom {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.shelf[ref]; im != nil {
		return im.cdrom
	}
	return nil
}

// IsSet reports whether a CD-ROM is several files and no ISO image.
func (l *Library) IsSet(ref Ref) bool {
	cdrom := l.Cdrom(ref)
	return cdrom != nil && formatOf(cdrom) == v1.FormatPXE
}

// Prepare reports why a host cannot be given an image with its own kernel arguments. The
// patches of the image are kept for the host, which is about to ask for it.
func (l *Library) Prepare(image *snapshot.Image, args []string) error {
	if image.PXE { // its arguments stand in the script
		files, err := l.Files(image.Ref, "")
		if err == nil {
			files.Release()
		}
		return err
	}
	disk, err := l.Disk(image.Ref, args)
	if err == nil {
		disk.Release()
	}
	return err
}

// Targets gives the CD-ROMs that there are disks of, in no order.
func (l *Library) Targets() []Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refs []Ref
	for ref, im := range l.shelf {
		if im.cdrom != nil && im.current != nil && im.failure == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// image gives the place of a CD-ROM on the shelf, a new one where there is none.
// l.mu must be held.
func (l *Library) image(ref Ref) *image {
	im := l.shelf[ref]
	if im == nil {
		im = &image{ref: ref, incoming: make(chan struct{}, 1), readers: map[*Disk]v1.Subscriber{}}
		l.shelf[ref] = im
	}
	return im
}

// image is one CD-ROM and its file.
type image struct {
	ref Ref
	// work is held by whoever exchanges the file or writes the status.
	work sync.Mutex
	// incoming holds one while somebody writes into the unfinished file. Who has
	// it may wait for work, not the other way round.
	incoming chan struct{}

	// Under Library.mu:

	// cdrom is the object as last seen; nil: there is none.
	cdrom *v1.ISCSICdrom
	// doomed are deleted objects, whose files are to go.
	doomed []doomed
	// current is what is served; nil: nothing.
	current *volume
	// set is what is served where the image is several files.
	set *set
	// former were served before.
	former former
	// doubted are the volumes whose files have changed while they were read, each held.
	doubted []*volume
	// failure says why nothing is served although there is a file, or why not yet.
	failure error
	// seen is the identity that the file had at the last look.
	seen identity
	// phase is the one last written, for events and metrics.
	phase string
	// silent is true where the status was written last without readers of this server:
	// those that it shows are another's.
	silent bool
	// upload and download are what is under way.
	upload   *upload
	download *fetch
	readers  map[*Disk]v1.Subscriber
}
