package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
	"glowplug/internal/image"
)

// finding is the state of a CD-ROM's image.
type finding struct {
	// ISCSICdromStatus has the phase, the message, the releases and the download; the
	// statusWriter adds the other fields.
	v1.ISCSICdromStatus
	// Content is served, or is what failed.
	image.Content
	overlay *iso.Overlay // with the image's own arguments; nil: it is not served
	again   time.Duration
	// order is for the specified release of an image of a stream; nil: it is not known.
	order *order
	// streamed is true for an image of a stream. reason is why its served release is not
	// the specified one, or "", and problem says more.
	streamed        bool
	reason, problem string
}

// Reconcile has the image of a CD-ROM served, and writes its status. The error is the
// store's.
func (c *Controller) Reconcile(ctx context.Context, ref Ref) (requeueAfter time.Duration, err error) {
	c.mu.Lock()
	st := c.states[ref]
	c.mu.Unlock()
	if st == nil {
		return 0, nil
	}
	c.clean(ctx, st)
	st.work.Lock()
	defer st.work.Unlock()
	cdrom := c.images.Cdrom(ref)
	overwritten, verify := c.images.Verify(ctx, ref)
	for range overwritten {
		c.recordOverwritten(ref, cdrom)
	}
	if cdrom == nil {
		c.forget(st)
		return verify, nil
	}

	before := c.images.Current(ref)
	found := c.inspect(ctx, st, cdrom)
	expires, ok := c.images.Serve(ctx, ref, cdrom.UID, found.Content)
	if !ok {
		return verify, nil
	}
	if found.Set != nil && found.Set != before.Set && found.reason == "" && found.order != nil {
		c.folder.tidy(cdrom, found.order) // of the release before it, which is open
	}
	requeueAfter = soonest(found.again, verify, expires)
	return requeueAfter, c.statuses.write(ctx, cdrom, &found)
}

// soonest returns the shortest of several pauses, of which 0 is none.
func soonest(pauses ...time.Duration) (first time.Duration) {
	for _, pause := range pauses {
		if pause > 0 && (first == 0 || pause < first) {
			first = pause
		}
	}
	return first
}

// clean removes the files of objects that were deleted, once their transfers have ended.
func (c *Controller) clean(ctx context.Context, st *state) {
	c.mu.Lock()
	all := st.doomed
	st.doomed = nil
	c.mu.Unlock()
	for _, d := range all {
		for _, end := range d.ends {
			select {
			case <-end:
			case <-ctx.Done():
				return
			}
		}
		if err := c.folder.remove(d.uid); err != nil {
			c.opts.Logger.Warn("the files of a deleted image cannot be removed", "image", st.ref.String(), "error", err)
		}
	}
}

// forget removes the state of a CD-ROM that does not exist.
func (c *Controller) forget(st *state) {
	uploading := c.uploads.active(st.ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !uploading && len(st.doomed) == 0 && c.images.Cdrom(st.ref) == nil && c.states[st.ref] == st {
		delete(c.states, st.ref)
	}
}

// recordOverwritten records an event about an image that was overwritten while it was read.
func (c *Controller) recordOverwritten(ref Ref, cdrom *v1.ISCSICdrom) {
	const message = "its file was overwritten while machines were reading it: their reads fail until they boot again; " +
		"write a new image to another file and rename it"
	c.opts.Logger.Warn(message, "image", ref.String())
	if cdrom != nil {
		c.opts.Recorder.Record(objectOf(cdrom), v1.EventWarning, "ImageOverwritten", message)
	}
}

// announce says that a file is being read, which takes a while where it is large,
// unless an older one is served meanwhile.
func (c *Controller) announce(ctx context.Context, st *state, cdrom *v1.ISCSICdrom) {
	if c.images.Current(st.ref).Volume != nil {
		return
	}
	f := pending(errors.New("its SHA-256 is being computed"))
	if err := c.statuses.write(ctx, cdrom, &f); err != nil {
		c.opts.Logger.Debug("a status could not be written", "image", st.ref.String(), "error", err)
	}
}

var errNoDirectory = errors.New("this server has no ISO directory: start it with --iso-dir")

// inspect returns the state of a CD-ROM's image.
func (c *Controller) inspect(ctx context.Context, st *state, cdrom *v1.ISCSICdrom) finding {
	spec := &cdrom.Spec
	if spec.External != nil {
		c.downloads.cancel(st.ref)
		return foundIn(v1.PhaseReady, nil)
	}
	if c.folder.root == nil {
		return failed(errNoDirectory)
	}
	if spec.Stream != nil {
		return c.inspectStream(ctx, st, cdrom)
	}
	if spec.URL == "" {
		c.downloads.cancel(st.ref)
	}
	if spec.ISOFile != "" && (spec.ISOFile == image.OwnDir || strings.HasPrefix(spec.ISOFile, image.OwnDir+"/")) {
		return failed(fmt.Errorf("isoFile %s: %s is the server's own", spec.ISOFile, image.OwnDir))
	}
	v, err := c.images.Open(ctx, cdrom, func() { c.announce(ctx, st, cdrom) })
	switch {
	case errors.Is(err, image.ErrSettling):
		found := pending(err)
		found.again = c.images.Settle()
		return found
	case errors.Is(err, fs.ErrNotExist) && spec.ISOFile == "":
		return c.awaited(ctx, st, cdrom, nil)
	case errors.Is(err, fs.ErrNotExist):
		return failed(fmt.Errorf("there is no file %s in the ISO directory", spec.ISOFile))
	case err != nil && spec.ISOFile == "" && spec.URL != "":
		return c.awaited(ctx, st, cdrom, nil) // the download repairs it
	case err != nil:
		found := failed(fmt.Errorf("%s: %w", display(cdrom), err))
		found.again = retryMax // the disk may be at fault
		return found
	}
	found := c.served(cdrom, v)
	if spec.URL != "" && !strings.EqualFold(spec.SHA256, v.SHA256) {
		// The former image is served until the new one is complete.
		other := c.awaited(ctx, st, cdrom, v)
		found.Phase, found.ErrorMessage, found.Download = other.Phase, other.ErrorMessage, other.Download
	} else if spec.URL != "" {
		c.downloads.cancel(st.ref)
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

// foundIn returns the finding of a phase in which nothing is served, for a reason.
func foundIn(phase string, failure error) (f finding) {
	f.Phase, f.Failure = phase, failure
	if failure != nil {
		f.ErrorMessage = failure.Error()
	}
	return f
}

func pending(err error) finding { return foundIn(v1.PhasePending, err) }

func failed(err error) finding { return foundIn(v1.PhaseError, err) }

// served is the finding of a good file: Ready, where its arguments can be set.
func (c *Controller) served(cdrom *v1.ISCSICdrom, v *image.Volume) finding {
	overlay, err := c.images.Overlay(v, cdrom, nil, "")
	found := foundIn(v1.PhaseReady, err)
	found.Volume, found.overlay = v, overlay
	if err != nil {
		found.Phase, found.ErrorMessage = v1.PhaseError, "its kernel arguments cannot be set: "+err.Error()
	}
	return found
}

// awaited is the finding of a file that is not complete yet. was is the former one, which
// is served until then.
func (c *Controller) awaited(ctx context.Context, st *state, cdrom *v1.ISCSICdrom, was *image.Volume) finding {
	f := finding{}
	f.Phase, f.Volume, f.Failure = v1.PhaseUploading, was, errors.New("it is being uploaded")
	if cdrom.Spec.URL != "" {
		f.Failure = errors.New("it is being downloaded")
		o, err := c.orders.of(cdrom)
		if err == nil {
			err = c.downloads.start(ctx, st, cdrom, o)
		}
		if err != nil {
			f.Phase, f.ErrorMessage, f.Failure = v1.PhaseError, err.Error(), err
		}
		f.Download = c.downloads.progress(st.ref)
		return f
	}
	if c.uploads.active(st.ref) {
		return f
	}
	if f.again = c.uploads.awaited(st.ref); f.again > 0 {
		return f
	}
	f.Phase, f.Failure = v1.PhasePending, errors.New("no image was uploaded yet")
	f.ErrorMessage = fmt.Sprintf("%v: glowplug iso upload %s FILE -n %s", f.Failure, cdrom.Name, cdrom.Namespace)
	if state, err := c.folder.uploaded(cdrom); err == nil && state.Offset > 0 {
		f.ErrorMessage = fmt.Sprintf("an upload has stopped after %d of %d bytes: do it again and it goes on from there",
			state.Offset, state.Total)
	}
	return f
}
