package image

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/image/download"
	"glowplug/internal/version"
)

// partName is the name, but for its ending, of what is on its way; originUpload is
// the origin of an upload.
const (
	partName     = "image"
	originUpload = "upload"
)

// fetch is the download of the files of one CD-ROM, retried until it succeeds.
type fetch struct {
	uid string
	// generation is that of the object when the download began.
	generation int64
	order      *order
	cancel     context.CancelFunc
	done       chan struct{}
	// problem is why the last try has brought nothing, under Library.mu.
	problem error
	// mirror is the one to begin with, signed are the files whose signatures were
	// looked at, furthest is how much of a file any try has brought; the fetching
	// goroutine's own.
	mirror   int
	signed   map[string]bool
	furthest map[string]int64

	// role is what is being fetched; received and total are how far that is.
	role            atomic.Pointer[string]
	received, total atomic.Int64
	// told is when the status was last asked to tell so, in nanoseconds since 1970.
	told atomic.Int64
}

// errUnwanted ends a download of something that nobody wants any more.
var errUnwanted = errors.New("something else is wanted by now")

// startDownload begins to fetch what a CD-ROM has ordered, where nobody does yet.
// The error is what the tries so far have come to.
func (l *Library) startDownload(im *image, cdrom *v1.ISCSICdrom, o *order) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := im.download; d != nil {
		// After a failure, an object that was changed since may be the remedy.
		remedied := d.problem != nil && d.generation != cdrom.Generation
		if d.uid == string(cdrom.UID) && d.order.key == o.key && !remedied {
			return d.problem
		}
		d.cancel()
		im.download = nil
	}
	if l.ctx.Err() != nil || im.cdrom == nil {
		return nil
	}
	d := &fetch{uid: string(cdrom.UID), generation: cdrom.Generation, order: o, done: make(chan struct{}), signed: map[string]bool{}, furthest: map[string]int64{}}
	ctx, cancel := context.WithCancel(l.ctx)
	d.cancel = cancel
	im.download = d
	l.background.Go(func() {
		defer close(d.done)
		defer cancel()
		l.fetch(ctx, im, cdrom, d)
	})
	return nil
}

// endDownload ends the download of an image that no longer wants it, or has it.
func (l *Library) endDownload(im *image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im.download != nil {
		im.download.cancel()
		im.download = nil
	}
}

// downloading is how far the download of an image is; nil where there is none.
func (l *Library) downloading(im *image) *v1.DownloadProgress {
	l.mu.Lock()
	d := im.download
	l.mu.Unlock()
	if d == nil {
		return nil
	}
	p := &v1.DownloadProgress{Release: d.order.of.Release, Received: d.received.Load(), Total: max(0, d.total.Load())}
	if role := d.role.Load(); role != nil {
		p.File = *role
	}
	return p
}

// fetch tries until all has come, or nobody wants it any more.
func (l *Library) fetch(ctx context.Context, im *image, cdrom *v1.ISCSICdrom, d *fetch) {
	for failures := 1; ; failures++ {
		brought, err := l.fetchOnce(ctx, im, cdrom, d)
		if err == nil {
			l.metrics.transfers.WithLabelValues(byDownload, resultDone).Inc()
		}
		if err == nil || errors.Is(err, errUnwanted) {
			l.queue.Add(im.ref)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if brought = brought && !download.IsPermanent(err); brought {
			failures = 1 // it goes on
		}
		pause, result := l.pace.soon.after(failures), resultCut
		if download.IsPermanent(err) {
			pause, result = l.pace.late.after(failures), resultRefused
		}
		l.metrics.transfers.WithLabelValues(byDownload, result).Inc()
		l.opts.Logger.Warn("an image could not be downloaded; trying again", "image", im.ref.String(), "error", err, "in", pause.Round(time.Second))
		l.mu.Lock()
		d.problem = err
		if brought {
			d.problem = nil // it goes on, in pieces
		}
		l.mu.Unlock()
		l.queue.Add(im.ref)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// fetchOnce asks for what is missing, each mirror once, and puts what has come
// whole in its place. brought tells whether anything came, and more is to be
// expected.
func (l *Library) fetchOnce(ctx context.Context, im *image, cdrom *v1.ISCSICdrom, d *fetch) (brought bool, err error) {
	for _, turn := range []chan struct{}{l.downloads, im.incoming} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	for i := range d.order.files {
		f := &d.order.files[i]
		if f.name != imageFile && l.has(ctx, cdrom, d, f) {
			continue
		}
		came, err := l.fetchFile(ctx, im, cdrom, d, f)
		brought = brought || came
		if err != nil {
			return brought, err
		}
	}
	if d.order.of.Format == v1.FormatPXE {
		err = l.arriveSet(im, cdrom, d)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		err = fmt.Errorf("the store: %w", err)
	}
	return brought, err
}

// fetchFile brings one file.
func (l *Library) fetchFile(ctx context.Context, im *image, cdrom *v1.ISCSICdrom, d *fetch, f *ordered) (brought bool, err error) {
	p, err := f.source.Open(l.folder(), ownFolder(cdrom), partName, l.pace.save)
	if errors.Is(err, download.ErrBusy) {
		return false, err
	}
	if err != nil {
		return false, fmt.Errorf("the ISO directory: %w", plain(err))
	}
	defer p.Close()
	d.role.Store(&f.role)
	d.received.Store(p.State.Offset)
	d.total.Store(p.State.Total)
	before := max(p.State.Offset, d.furthest[f.name])
	d.mirror, err = l.asking(im, d).Round(ctx, p, &f.source, l.keysFor(d.order), d.mirror)
	if err == nil && f.name == imageFile {
		err = l.arrive(im, cdrom, p, f.source.SHA256, d.order, l.stillWanted(d))
	} else if err == nil {
		err = l.keepFile(p, f)
		d.signed[f.name] = l.opts.Keyring != nil
	}
	if err != nil {
		err = l.failed(p, d.order, err)
		if errors.Is(err, errDiskFull) {
			l.mu.Lock()
			im.former.clear() // nobody may need them
			l.mu.Unlock()
		}
	}
	// What comes again and again, only to be thrown away, brings nothing.
	d.furthest[f.name] = max(p.State.Offset, before)
	brought = err == nil || p.State.Offset > before && !download.IsPermanent(err) && !errors.Is(err, download.ErrSlow)
	return brought, err
}

// keysFor are the keys that an order's files have to be signed with: those of a
// URL have their digest from whoever wrote the object.
func (l *Library) keysFor(o *order) *download.Keyring {
	if o.of.Stream == "" {
		return nil
	}
	return l.opts.Keyring
}

// asking asks for a download's files, and counts what comes.
func (l *Library) asking(im *image, d *fetch) *download.Client {
	return &download.Client{
		HTTP: l.client, Agent: "glowplug/" + version.Version, Idle: l.pace.idle,
		Room: func(p *download.Part) error {
			d.received.Store(p.State.Offset)
			d.total.Store(p.State.Total)
			return l.room(p)
		},
		Received: func(n float64) {
			l.metrics.received.WithLabelValues(byDownload).Add(n)
			d.received.Add(int64(n))
			now := l.opts.Now().UnixNano()
			if told := d.told.Load(); now-told > int64(l.pace.tell) && d.told.CompareAndSwap(told, now) {
				l.queue.Add(im.ref) // for the status
			}
		},
	}
}

// stillWanted tells whether an object, as it is stored, still wants what was
// downloaded.
func (l *Library) stillWanted(d *fetch) func(*v1.ISCSICdrom) error {
	return func(now *v1.ISCSICdrom) error {
		o, err := l.orderOf(now)
		if err != nil || o == nil || o.key != d.order.key {
			return errUnwanted
		}
		return nil
	}
}

// failed keeps what has come before a try failed, unless it takes up room that
// others need, and says in the error where the fault is.
func (l *Library) failed(p *download.Part, o *order, err error) error {
	var status apierrors.APIStatus
	local := errors.As(err, new(download.LocalError))
	switch {
	case errors.Is(err, errUnwanted) || errors.Is(err, errDeleted):
	case errors.Is(err, errBadImage):
		p.Discard()
		return download.Permanent("%s: %w", o.field, err)
	case errors.Is(err, errDiskFull):
		return err
	case l.pace.diskFull(err):
		p.Discard()
		return errDiskFull
	default:
		if saveErr := p.Save(); saveErr != nil {
			l.opts.Logger.Warn("an unfinished transfer cannot be saved", "error", saveErr)
		}
		switch {
		case errors.As(err, &status):
			return fmt.Errorf("the store: %w", err)
		case local:
			return fmt.Errorf("the ISO directory: %w", err)
		}
		return fmt.Errorf("%s: %w", o.field, err)
	}
	return err
}
