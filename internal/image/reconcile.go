package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
	"glowplug/internal/image/download"
)

// next looks after one image; it tells whether there may be more.
func (l *Library) next() bool {
	ref, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(ref)
	again, err := l.reconcile(l.ctx, ref)
	switch {
	case l.ctx.Err() != nil:
	case err != nil:
		l.opts.Logger.Warn("an image could not be looked after; trying again", "image", ref.String(), "error", err)
		l.queue.AddRateLimited(ref)
	default:
		l.queue.Forget(ref)
		if again > 0 {
			l.queue.AddAfter(ref, again)
		}
	}
	return true
}

// finding is what a look at a CD-ROM's image has come to.
type finding struct {
	phase   string
	message string
	volume  *volume      // what is served, or what failed
	overlay *iso.Overlay // with the image's own arguments; nil: it is not served
	failure error        // why nothing is served
	again   time.Duration

	// set is what is served, or what failed, where the image is several files.
	set *set
	// streamed is true for an image of a stream; release is the one that it is to be
	// of, servedRelease the one that it is of, maxIgnition what that reads. reason is
	// why these are not the same, or "", and problem says more.
	streamed                            bool
	release, servedRelease, maxIgnition string
	reason, problem                     string
	// download is how far one is; nil: none.
	download *v1.DownloadProgress
}

// reconcile looks at one image and writes its status; again is when to look next
// time, 0 when something happens. The error is the store's.
func (l *Library) reconcile(ctx context.Context, ref Ref) (again time.Duration, err error) {
	l.mu.Lock()
	im := l.shelf[ref]
	l.mu.Unlock()
	if im == nil {
		return 0, nil
	}
	l.clean(ctx, im)
	im.work.Lock()
	defer im.work.Unlock()
	l.mu.Lock()
	cdrom := im.cdrom
	l.mu.Unlock()
	verify := l.verify(ctx, im, cdrom)
	if cdrom == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if im.cdrom == nil && len(im.doomed) == 0 && len(im.doubted) == 0 && len(im.readers) == 0 && l.shelf[ref] == im && im.upload == nil {
			delete(l.shelf, ref)
		}
		return verify, nil
	}

	found := l.look(ctx, im, cdrom)
	l.mu.Lock()
	if gone := im.cdrom == nil || im.cdrom.UID != cdrom.UID; gone || ctx.Err() != nil {
		volume, set := found.volume, found.set
		if volume == im.current {
			volume = nil
		}
		if set == im.set {
			set = nil
		}
		l.mu.Unlock()
		if volume != nil {
			_ = volume.drop()
		}
		if set != nil {
			_ = set.drop()
		}
		return verify, nil
	}
	if verify > 0 && (found.again == 0 || verify < found.again) {
		found.again = verify
	}
	l.exchange(im, found.volume, found.set)
	im.failure = found.failure
	now := l.opts.Now()
	if next := im.former.expire(now); !next.IsZero() && (found.again == 0 || next.Sub(now) < found.again) {
		found.again = next.Sub(now)
	}
	l.mu.Unlock()
	return found.again, l.writeStatus(ctx, im, cdrom, &found)
}

// imageFile is the name of a file that was received.
const imageFile = "image.iso"

// ownFile is where what was received for a CD-ROM is kept.
func ownFile(cdrom *v1.ISCSICdrom) string { return path.Join(ownFolder(cdrom), imageFile) }

// ownFolder holds what was received for a CD-ROM, and what is on its way.
func ownFolder(cdrom *v1.ISCSICdrom) string { return path.Join(ownDir, plainUID(string(cdrom.UID))) }

// plainUID keeps a UID from being a path.
func plainUID(uid string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, uid)
}

// fileOf is the file of a CD-ROM that is no external one; of a set, the one that
// says of what.
func fileOf(cdrom *v1.ISCSICdrom) string {
	if formatOf(cdrom) == v1.FormatPXE {
		return path.Join(ownFolder(cdrom), manifestFile)
	}
	if cdrom.Spec.ISOFile != "" {
		return cdrom.Spec.ISOFile
	}
	return ownFile(cdrom)
}

// look finds out what there is of a CD-ROM's image.
func (l *Library) look(ctx context.Context, im *image, cdrom *v1.ISCSICdrom) finding {
	spec := &cdrom.Spec
	if spec.External != nil {
		l.endDownload(im)
		return finding{phase: v1.PhaseReady}
	}
	if l.root == nil {
		return failed(errors.New("this server has no ISO directory: start it with --iso-dir"))
	}
	if spec.Stream != nil {
		return l.lookStream(ctx, im, cdrom)
	}
	if spec.URL == "" {
		l.endDownload(im)
	}
	if spec.ISOFile != "" && (spec.ISOFile == ownDir || strings.HasPrefix(spec.ISOFile, ownDir+"/")) {
		return failed(fmt.Errorf("isoFile %s: %s is the server's own", spec.ISOFile, ownDir))
	}
	name := fileOf(cdrom)
	v, err := l.open(ctx, im, name, func() { l.announce(ctx, im, cdrom) })
	switch {
	case errors.Is(err, errSettling):
		return finding{phase: v1.PhasePending, message: "the file is being written", failure: err, again: l.pace.settle}
	case errors.Is(err, fs.ErrNotExist) && spec.ISOFile == "":
		return l.awaited(im, cdrom, nil)
	case errors.Is(err, fs.ErrNotExist):
		return failed(fmt.Errorf("there is no file %s in the ISO directory", name))
	case err != nil && spec.ISOFile == "" && spec.URL != "":
		return l.awaited(im, cdrom, nil) // the download repairs it
	case err != nil:
		found := failed(fmt.Errorf("%s: %w", display(cdrom), err))
		found.again = retryMax // the disk may be at fault
		return found
	}
	found := l.served(cdrom, v)
	if spec.URL != "" && !strings.EqualFold(spec.SHA256, v.sha256) {
		// What was there before is served until the new one has come.
		other := l.awaited(im, cdrom, v)
		found.phase, found.message, found.download = other.phase, other.message, other.download
	} else if spec.URL != "" {
		l.endDownload(im)
	}
	return found
}

// display names the file of a CD-ROM in messages.
func display(cdrom *v1.ISCSICdrom) string {
	switch {
	case cdrom.Spec.ISOFile != "":
		return "isoFile " + cdrom.Spec.ISOFile
	case cdrom.Spec.URL != "":
		return "the downloaded image"
	}
	return "the uploaded image"
}

func failed(err error) finding {
	return finding{phase: v1.PhaseError, message: err.Error(), failure: err}
}

// served is the finding of a good file: Ready, where its arguments can be set.
func (l *Library) served(cdrom *v1.ISCSICdrom, v *volume) finding {
	overlay, err := l.customize(v, cdrom, nil)
	if err != nil {
		return finding{phase: v1.PhaseError, message: "its kernel arguments cannot be set: " + err.Error(), volume: v, failure: err}
	}
	return finding{phase: v1.PhaseReady, volume: v, overlay: overlay}
}

// awaited is the finding of a file that is to be received. was is an older one
// that stays for as long.
func (l *Library) awaited(im *image, cdrom *v1.ISCSICdrom, was *volume) finding {
	f := finding{phase: v1.PhaseUploading, volume: was}
	if cdrom.Spec.URL != "" {
		o, err := l.orderOf(cdrom)
		if err == nil {
			err = l.startDownload(im, cdrom, o)
		}
		if err != nil {
			f.phase, f.message = v1.PhaseError, err.Error()
		}
		f.download = l.downloading(im)
		f.failure = errors.New("it is being downloaded")
		if f.message != "" {
			f.failure = errors.New(f.message)
		}
		return f
	}
	l.mu.Lock()
	uploading := im.upload != nil
	l.mu.Unlock()
	f.failure = errors.New("it is being uploaded")
	if !uploading {
		f.phase = v1.PhasePending
		f.message = fmt.Sprintf("no image was uploaded yet: glowplug iso upload %s FILE -n %s", cdrom.Name, cdrom.Namespace)
		if state, err := download.ReadState(l.root, ownFolder(cdrom), partName, originUpload); err == nil && state.Offset > 0 {
			f.message = fmt.Sprintf("an upload has stopped after %d of %d bytes: do it again and it goes on from there", state.Offset, state.Total)
		}
		f.failure = errors.New("no image was uploaded yet")
	}
	return f
}
