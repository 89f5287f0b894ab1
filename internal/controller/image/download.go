package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
	"glowplug/internal/version"
)

// downloads are the downloads under way, one of a CD-ROM at most.
type downloads struct {
	c    *Controller
	http *http.Client
	// slots bound the downloads at the same time.
	slots      chan struct{}
	background sync.WaitGroup

	mu     sync.Mutex
	all    map[Ref]*fetch
	closed bool
}

func newDownloads(c *Controller) *downloads {
	return &downloads{
		c: c, http: download.NewGuardedClient(c.opts.Allow, maxDownloads),
		slots: make(chan struct{}, maxDownloads), all: map[Ref]*fetch{},
	}
}

// close ends all downloads and waits for them.
func (d *downloads) close() {
	d.mu.Lock()
	d.closed = true
	for _, f := range d.all {
		f.cancel()
	}
	d.mu.Unlock()
	d.background.Wait()
}

// fetch is the download of the files of one CD-ROM, retried until it succeeds.
type fetch struct {
	state *state
	// cdrom is the object as it was when the download began.
	cdrom  *v1.ISCSICdrom
	order  *order
	cancel context.CancelFunc
	done   chan struct{}
	// problem is why the last try has brought nothing, under downloads.mu.
	problem error
	// mirror is the one to begin with, verified are the files whose signatures were
	// looked at, most is the largest part of a file that any try has brought; the
	// fetching goroutine's own.
	mirror   int
	verified map[string]bool
	most     map[string]int64

	// role is that of the file on its way; received and total are its bytes.
	role            atomic.Pointer[string]
	received, total atomic.Int64
	// reported is when the status was asked to show the progress last, in nanoseconds
	// since 1970.
	reported atomic.Int64
}

// errUnwanted ends a download that no object asks for any more.
var errUnwanted = errors.New("something else is wanted by now")

// start begins to download the files of a CD-ROM, unless that is under way. The
// download outlives ctx. The error is that of the tries so far.
func (d *downloads) start(ctx context.Context, st *state, cdrom *v1.ISCSICdrom, o *order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.all[st.ref]; f != nil {
		// After a failure, an object that was changed since may be the remedy.
		remedied := f.problem != nil && f.cdrom.Generation != cdrom.Generation
		if f.cdrom.UID == cdrom.UID && f.order.key == o.key && !remedied {
			return f.problem
		}
		f.cancel()
		delete(d.all, st.ref)
	}
	if d.closed || d.c.images.Cdrom(st.ref) == nil {
		return nil
	}
	f := &fetch{
		state: st, cdrom: cdrom, order: o, done: make(chan struct{}),
		verified: map[string]bool{}, most: map[string]int64{},
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	d.all[st.ref] = f
	d.background.Go(func() {
		defer close(f.done)
		defer f.cancel()
		d.fetch(ctx, f)
	})
	return nil
}

// cancel ends the download of an image that no longer wants it, or has it. It has ended
// with the channel.
func (d *downloads) cancel(ref Ref) []<-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.all[ref]
	if f == nil {
		return nil
	}
	f.cancel()
	delete(d.all, ref)
	return []<-chan struct{}{f.done}
}

// progress is that of the download of an image; nil where there is none.
func (d *downloads) progress(ref Ref) *v1.DownloadProgress {
	d.mu.Lock()
	f := d.all[ref]
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	p := &v1.DownloadProgress{
		Release: f.order.of.Release, Received: f.received.Load(), Total: max(0, f.total.Load()),
	}
	if role := f.role.Load(); role != nil {
		p.File = *role
	}
	return p
}

// fetch tries until the download is complete, or no object asks for it any more.
func (d *downloads) fetch(ctx context.Context, f *fetch) {
	soon, late := d.c.pace.soon, d.c.pace.late
	for {
		brought, err := d.fetchOnce(ctx, f)
		if err == nil {
			d.c.metrics.transfers.WithLabelValues(byDownload, resultDone).Inc()
		}
		if err == nil || errors.Is(err, errUnwanted) {
			d.c.runtime.Enqueue(f.state.ref)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, download.ErrBusy) { // it is no failure, and the other server may die
			if !controller.Sleep(ctx, d.c.pace.turn) {
				return
			}
			continue
		}
		problem, backOff, result := err, &soon, resultCut
		switch {
		case download.IsPermanent(err):
			backOff, result = &late, resultRefused
		case brought: // it goes on, in pieces
			problem, soon, late = nil, d.c.pace.soon, d.c.pace.late
		}
		delay := backOff.Step()
		d.c.metrics.transfers.WithLabelValues(byDownload, result).Inc()
		d.c.opts.Logger.Warn("an image could not be downloaded; trying again",
			"image", f.state.ref.String(), "error", err, "in", delay.Round(time.Second))
		d.mu.Lock()
		f.problem = problem
		d.mu.Unlock()
		d.c.runtime.Enqueue(f.state.ref)
		if !controller.Sleep(ctx, delay) {
			return
		}
	}
}

// fetchOnce asks each mirror once for the missing part, and installs the files that are
// complete. brought reports whether any bytes came, so that more can be expected.
func (d *downloads) fetchOnce(ctx context.Context, f *fetch) (brought bool, err error) {
	for _, turn := range []chan struct{}{d.slots, f.state.incoming} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	for i := range f.order.files {
		wanted := &f.order.files[i]
		if wanted.name != image.ReceivedFile && d.c.folder.has(ctx, f.cdrom, wanted, f.verified[wanted.name]) {
			continue
		}
		came, err := d.fetchFile(ctx, f, wanted)
		brought = brought || came
		if err != nil {
			return brought, err
		}
	}
	if f.order.of.Format == v1.FormatPXE {
		err = d.c.installSet(ctx, f)
	}
	if errors.As(err, new(apierrors.APIStatus)) {
		err = fmt.Errorf("the store: %w", err)
	}
	return brought, err
}

// fetchFile brings one file.
func (d *downloads) fetchFile(ctx context.Context, f *fetch, wanted *ordered) (brought bool, err error) {
	p, err := wanted.source.Open(d.c.folder.files(), image.OwnFolder(f.cdrom), partName, d.c.pace.save)
	if errors.Is(err, download.ErrBusy) {
		return false, err
	}
	if err != nil {
		return false, fmt.Errorf("the ISO directory: %w", image.Cause(err))
	}
	defer p.Close()
	f.role.Store(&wanted.role)
	f.received.Store(p.State.Offset)
	f.total.Store(p.State.Total)
	before := max(p.State.Offset, f.most[wanted.name])
	keys := d.c.opts.Keyring
	if f.order.of.Stream == "" {
		keys = nil // the author of the object wrote the digest
	}
	f.mirror, err = d.client(f).Round(ctx, p, &wanted.source, keys, f.mirror)
	if err == nil && wanted.name == image.ReceivedFile {
		err = d.c.install(ctx, f.state, f.cdrom, p, wanted.source.SHA256, f.order, d.stillWanted(f))
	} else if err == nil {
		err = d.c.folder.keepFile(p, wanted)
		f.verified[wanted.name] = d.c.opts.Keyring != nil
	}
	if err != nil {
		err = d.failed(p, f.order, err)
		if errors.Is(err, errDiskFull) {
			d.c.images.DropFormer(f.state.ref) // they may be unused
		}
	}
	// What comes again and again, only to be thrown away, brings nothing.
	f.most[wanted.name] = max(p.State.Offset, before)
	brought = err == nil || p.State.Offset > before && !download.IsPermanent(err) && !errors.Is(err, download.ErrSlow)
	return brought, err
}

// client asks for the files of a download, and counts the bytes that come.
func (d *downloads) client(f *fetch) *download.Client {
	return &download.Client{
		HTTP: d.http, Agent: "glowplug/" + version.Version, Idle: d.c.pace.idle,
		Room: func(p *download.Part) error {
			f.received.Store(p.State.Offset)
			f.total.Store(p.State.Total)
			return d.c.folder.checkRoom(p)
		},
		Received: func(n float64) {
			d.c.metrics.received.WithLabelValues(byDownload).Add(n)
			f.received.Add(int64(n))
			now := d.c.opts.Now().UnixNano()
			reported := f.reported.Load()
			if now-reported > int64(d.c.pace.progress) && f.reported.CompareAndSwap(reported, now) {
				d.c.runtime.Enqueue(f.state.ref) // for the status
			}
		},
	}
}

// stillWanted reports whether an object, as it is stored, still wants what was
// downloaded.
func (d *downloads) stillWanted(f *fetch) func(*v1.ISCSICdrom) error {
	return func(now *v1.ISCSICdrom) error {
		o, err := d.c.orders.of(now)
		if err != nil || o == nil || o.key != f.order.key {
			return errUnwanted
		}
		return nil
	}
}

// failed keeps the bytes that came before a try failed, unless others need the space,
// and adds the place of the fault to the error.
func (d *downloads) failed(p *download.Part, o *order, err error) error {
	switch {
	case errors.Is(err, errUnwanted) || errors.Is(err, errDeleted):
	case errors.Is(err, image.ErrBadImage):
		p.Discard()
		return download.Permanent("%s: %w", o.field, err)
	case errors.Is(err, errDiskFull):
		return err
	case d.c.pace.diskFull(err):
		p.Discard()
		return errDiskFull
	default:
		d.c.folder.save(p)
		switch {
		case errors.As(err, new(apierrors.APIStatus)):
			return fmt.Errorf("the store: %w", err)
		case errors.As(err, new(download.LocalError)):
			return fmt.Errorf("the ISO directory: %w", err)
		}
		return fmt.Errorf("%s: %w", o.field, err)
	}
	return err
}
