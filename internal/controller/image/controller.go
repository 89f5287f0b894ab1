// Package image reconciles ISCSICdroms: it finds, receives or downloads the file of each,
// has it served, and is the one writer of its status.
//
// A file is never changed. What comes from outside grows beside it and takes its
// place in one step, once it is whole and has been found to be an ISO image;
// open readers keep the old one.
package image

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/egress"
	"glowplug/internal/feed"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
)

// Ref names an ISCSICdrom.
type Ref = image.Ref

const (
	// workers reconcile images at the same time. One that reads a file for its digest, or
	// receives one, does so by itself.
	workers = 4
	// maxDownloads and maxUploads bound what is received at the same time.
	maxDownloads = 3
	maxUploads   = 8
	// pollInterval is how often files are looked at for changes.
	pollInterval = 5 * time.Second
	// closeTimeout is how long Run waits for uploads that were cancelled.
	closeTimeout = 5 * time.Second
	// retryMin is the pause after a state that passes soon, retryMax after one that
	// hardly will.
	retryMin = controller.DefaultRetryMin
	retryMax = controller.DefaultRetryMax
)

// Options are the parts of a Controller.
type Options struct {
	// Library serves the images.
	Library *image.Library
	// Dir is the directory of the library, for messages.
	Dir string
	// Store is the store of iscsicdroms, with keys "/iscsicdroms/<namespace>/<name>".
	Store storage.Interface
	// Portal is the address of the iSCSI target that clients are told.
	Portal netip.AddrPort
	// Recorder takes events of images that become ready or fail; nil: none are recorded.
	Recorder controller.Recorder
	// Allow says where images may be downloaded from.
	Allow egress.Policy
	// Streams are the releases that images can be of; nil: there are none.
	Streams Streams
	// StreamsRead reports whether Streams have been read; nil: they have.
	StreamsRead func() bool
	// StreamsLost is true where Streams cannot be read, since their bucket is damaged.
	StreamsLost bool
	// Keyring has the keys that images of streams have to be signed with; nil: their
	// digest is enough.
	Keyring *download.Keyring
	// Shared is true where other servers look after the same CD-ROMs.
	Shared bool
	// Deleted is called with a CD-ROM that was deleted, whose disks may still be read;
	// nil: nothing is called. It must not block.
	Deleted func(Ref)
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Metrics counts the reconciles; nil: nothing is counted.
	Metrics *controller.Metrics
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Controller reconciles the CD-ROMs. Its methods are safe for concurrent use.
type Controller struct {
	opts      Options
	images    *image.Library
	due       *feed.Subscription[image.Due]
	streams   *feed.Subscription[string] // nil: there are none
	folder    *folder
	orders    orders
	uploads   *Uploads
	downloads *downloads
	statuses  *statusWriter
	metrics   *metrics
	pace      pace
	runtime   *controller.Controller[Ref]

	mu     sync.Mutex
	states map[Ref]*state
	// put is closed, and another one made, with each object that is put.
	put chan struct{}
}

// state is a CD-ROM as the controller knows it, beside the object.
type state struct {
	ref Ref
	// work is held while the file is exchanged or the status is written.
	work sync.Mutex
	// incoming holds one while somebody writes into the unfinished file. Who has
	// it may wait for work, not the other way round.
	incoming chan struct{}

	// Under Controller.mu:

	// doomed are deleted objects, whose files are to go.
	doomed []doomed
}

// pace are the pauses between tries, and the room that disks keep free.
type pace struct {
	poll     time.Duration
	idle     time.Duration // a transfer without a byte for so long is over
	busy     time.Duration // a transfer that had a byte since is not to be disturbed
	soon     wait.Backoff  // after a failure that may pass
	late     wait.Backoff  // after one that hardly will
	turn     time.Duration // while another server, which shares the folder, receives the file
	progress time.Duration // between two writes of how far a download is
	save     int64         // bytes between two checkpoints of a transfer
	reserve  uint64        // bytes of the disk that transfers leave free
	free     func(dir string) (uint64, error)
	diskFull func(err error) bool
}

// doubling returns a back-off that doubles from first up to most. Up to a quarter of each
// delay is random, so that many downloads are not retried at once.
func doubling(first, most time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.25, Steps: math.MaxInt, Cap: most * 4 / 5}
}

func usualPace() pace {
	return pace{
		poll:     pollInterval,
		idle:     time.Minute,
		busy:     10 * time.Second,
		soon:     doubling(time.Second, 5*time.Minute),
		late:     doubling(time.Minute, time.Hour),
		turn:     8 * time.Second, // longer than poll, so that a file is seen that is complete, and less than 10 s
		progress: 5 * time.Second,
		save:     64 << 20,
		reserve:  64 << 20,
		free:     image.FreeSpace,
		diskFull: image.IsDiskFull,
	}
}

// New returns a Controller, which does nothing before Run.
func New(opts Options) *Controller {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Recorder = cmp.Or(opts.Recorder, controller.NoRecorder)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Deleted == nil {
		opts.Deleted = func(Ref) {}
	}
	c := &Controller{
		opts: opts, images: opts.Library, pace: usualPace(),
		orders: orders{opts.Streams, opts.StreamsRead, opts.StreamsLost},
		states: map[Ref]*state{}, put: make(chan struct{}),
	}
	c.statuses = &statusWriter{Options: &c.opts, last: map[Ref]written{}}
	c.metrics = newMetrics(opts.Registerer, c.statuses.count)
	c.folder = &folder{Options: &c.opts, root: c.images.Root(), pace: &c.pace}
	c.uploads = newUploads(c)
	c.downloads = newDownloads(c)
	c.runtime = controller.New(controller.Options[Ref]{
		Name: "image", Reconcile: c.Reconcile, List: c.list, Workers: workers, Metrics: opts.Metrics, Logger: opts.Logger,
	})
	c.due = c.images.Subscribe()
	if opts.Streams != nil {
		c.streams = opts.Streams.Subscribe()
	}
	return c
}

// Run reconciles the CD-ROMs until ctx ends, and returns once all transfers have ended.
func (c *Controller) Run(ctx context.Context) {
	informer := c.newInformer()
	var background sync.WaitGroup
	background.Go(func() { informer.RunWithContext(ctx) })
	background.Go(func() { wait.UntilWithContext(ctx, c.poll, c.pace.poll) })
	background.Go(func() {
		select {
		case <-informer.HasSyncedChecker().Done():
			c.images.Loaded()
			c.folder.reportStrays(c.known())
		case <-ctx.Done():
		}
	})
	defer c.due.Follow(ctx, c.reconcileDue)()
	if c.streams != nil {
		defer c.streams.Follow(ctx, c.streamChanged)()
	}
	c.runtime.Run(ctx)
	c.downloads.close()
	c.uploads.close()
	background.Wait()
}

// Upload serves the uploads of images.
func (c *Controller) Upload() *Uploads { return c.uploads }

// MaxIgnition is the newest Ignition spec version that the image of a CD-ROM, which
// need not be stored, reads or will read; "" where that is not known.
func (c *Controller) MaxIgnition(cdrom *v1.ISCSICdrom) string { return c.orders.maxIgnition(cdrom) }

// reconcileDue has an image reconciled, or all.
func (c *Controller) reconcileDue(due image.Due) {
	if due != (image.Due{}) {
		c.runtime.EnqueueAfter(due.Ref, due.Pause)
		return
	}
	for _, ref := range c.images.Refs() {
		c.runtime.Enqueue(ref)
	}
}

// streamChanged has the images of a stream, or of all, reconciled: another release may be its
// current one.
func (c *Controller) streamChanged(stream string) {
	for _, ref := range c.images.Refs() {
		cdrom := c.images.Cdrom(ref)
		if cdrom != nil && cdrom.Spec.Stream != nil && (stream == "" || cdrom.Spec.Stream.Name == stream) {
			c.runtime.Enqueue(ref)
		}
	}
}

// poll has images reconciled whose files have changed, or have appeared.
func (c *Controller) poll(context.Context) {
	for _, ref := range c.images.Changed() {
		c.runtime.Enqueue(ref)
	}
}

// list queues the CD-ROMs that were put before the queue was there.
func (c *Controller) list(context.Context) ([]Ref, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.states)), nil
}

// state returns the state of a CD-ROM, a new one where there is none.
func (c *Controller) state(ref Ref) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[ref]
	if s == nil {
		s = &state{ref: ref, incoming: make(chan struct{}, 1)}
		c.states[ref] = s
	}
	return s
}

var _ cache.ResourceEventHandler = (*Controller)(nil)

// Values of the metrics' labels.
const (
	byUpload   = "upload"
	byDownload = "download"

	resultDone    = "done"
	resultCut     = "cut"
	resultRefused = "refused"
)

type metrics struct {
	received  *prometheus.CounterVec
	transfers *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, count func(phase string) int) *metrics {
	factory := promauto.With(reg)
	m := &metrics{
		received: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_images_received_bytes_total",
			Help: "Bytes of ISO files that were uploaded or downloaded.",
		}, []string{"by"}),
		transfers: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_images_transfers_total",
			Help: "Uploads and downloads: done, cut (to be resumed) or refused (not allowed, no ISO, wrong digest, disk full).",
		}, []string{"by", "result"}),
	}
	for _, by := range []string{byUpload, byDownload} {
		m.received.WithLabelValues(by)
		for _, result := range []string{resultDone, resultCut, resultRefused} {
			m.transfers.WithLabelValues(by, result)
		}
	}
	for _, phase := range []string{v1.PhasePending, v1.PhaseUploading, v1.PhaseReady, v1.PhaseError} {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_images", Help: "ISCSICdroms by phase.",
			ConstLabels: prometheus.Labels{"phase": phase},
		}, func() float64 { return float64(count(phase)) })
	}
	return m
}
