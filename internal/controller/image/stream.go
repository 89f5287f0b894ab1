package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/image"
)

// Reasons of the condition UpToDate.
const (
	reasonServed      = "Served"
	reasonDownloading = "Downloading"
	reasonFailed      = "DownloadFailed"
	reasonUnresolved  = "NotResolved"
)

// held is the content of an image of a stream, which the caller has to serve or to
// discard, and its release.
type held struct {
	image.Content
	of origin
	// sum is over the digests of its files; signed is true where their signatures were
	// looked at.
	sum    string
	signed bool
	// same is true where the image is of what the object names, but perhaps of
	// another release.
	same bool
}

// inspectStream returns the state of the image of a CD-ROM of a stream, and
// orders what is missing. An image that is there is served until another one has
// come, whatever becomes of that.
func (c *Controller) inspectStream(ctx context.Context, st *state, cdrom *v1.ISCSICdrom) finding {
	h, err := c.openHeld(ctx, st, cdrom)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.opts.Logger.Warn("an image is fetched again", "image", st.ref.String(), "error", err)
	}
	o, err := c.orders.of(cdrom)
	if errors.Is(err, errUnread) {
		f := c.servedStream(cdrom, &h, nil)
		if !h.Exists() {
			f = pending(err)
		}
		f.Release, f.again = cdrom.Status.Release, c.images.Settle()+retryMin
		return f
	}
	if err != nil {
		c.downloads.cancel(st.ref)
		f := c.servedStream(cdrom, &h, fmt.Errorf("spec.stream: %w", err))
		f.reason, f.Release, f.again = reasonUnresolved, cdrom.Status.Release, retryMax
		return f
	}
	if h.Exists() && h.same && h.sum == o.sum() {
		c.downloads.cancel(st.ref)
		if h.of != o.of { // the same bytes with other metadata
			if err := c.folder.addRelease(cdrom, o, h.signed); err != nil {
				c.opts.Logger.Warn("what an image is of cannot be written down", "image", st.ref.String(), "error", err)
			}
			h.of = o.of
		}
		f := c.servedStream(cdrom, &h, nil)
		f.Release, f.order = o.of.Release, o
		return f
	}
	problem := c.downloads.start(ctx, st, cdrom, o)
	f := c.servedStream(cdrom, &h, problem)
	f.Release, f.reason = o.of.Release, reasonDownloading
	if problem != nil {
		f.reason = reasonFailed
	}
	if !h.Exists() || !h.same {
		f.MaxIgnition, f.Phase = o.of.MaxIgnition, v1.PhaseUploading
		if problem != nil {
			f.Phase = v1.PhaseError
		} else if !h.Exists() {
			f.Failure = errors.New("it is being downloaded")
		}
	}
	f.Download = c.downloads.progress(st.ref)
	return f
}

// openHeld opens the files that there are of an image.
func (c *Controller) openHeld(ctx context.Context, st *state, cdrom *v1.ISCSICdrom) (h held, err error) {
	want := originOf(cdrom.Spec.Stream)
	m := c.folder.manifest(cdrom)
	if want.Format == v1.FormatPXE {
		c.images.SawManifest(cdrom)
		err = fs.ErrNotExist
		for i := range m.Releases {
			e := &m.Releases[i]
			if e.Format != v1.FormatPXE || !c.folder.trusts(e) {
				continue
			}
			if h.Set, err = c.images.OpenSet(ctx, cdrom, e.Files); err == nil {
				h.describe(e, want)
				return h, nil
			}
		}
		return h, err
	}
	h.Volume, err = c.images.Open(ctx, cdrom, func() { c.announce(ctx, st, cdrom) })
	if err != nil {
		return held{}, err
	}
	if e := m.releaseOf(h.Volume.SHA256); e != nil {
		if !c.folder.trusts(e) {
			c.images.Discard(st.ref, h.Content)
			return held{}, fs.ErrNotExist
		}
		h.describe(e, want)
	}
	return h, nil
}

// describe notes the release of the files.
func (h *held) describe(e *entry, want origin) {
	h.of, h.same, h.sum, h.signed = e.origin, e.sameSeries(want), image.SumOf(e.Files), e.Signed
}

// originOf is the part of an origin that an object names.
func originOf(s *v1.StreamImage) origin {
	d := s.WithDefaults()
	return origin{Stream: d.Name, Architecture: d.Architecture, Artifact: d.Artifact, Format: d.Format}
}

// servedStream is the finding of what is there: Ready, also where something is
// wrong with what is to take its place.
func (c *Controller) servedStream(cdrom *v1.ISCSICdrom, h *held, problem error) finding {
	var f finding
	switch {
	case h.Volume != nil:
		f = c.served(cdrom, h.Volume)
	case h.Set != nil:
		f.Phase, f.Set = v1.PhaseReady, h.Set
	default:
		f.Phase, f.Failure = v1.PhaseError, errors.New("it has no image yet")
	}
	f.ServedRelease, f.MaxIgnition = h.of.Release, h.of.MaxIgnition
	f.streamed = true
	if problem == nil {
		return f
	}
	f.problem = problem.Error()
	if f.ErrorMessage == "" {
		f.ErrorMessage = f.problem
		if h.Exists() && h.same {
			f.ErrorMessage += fmt.Sprintf("; release %s is still served", h.of.Release)
		}
	}
	if !h.Exists() {
		f.Failure = problem
	}
	return f
}

// condition is UpToDate of an image of a stream; nil for any other.
func (f *finding) condition(cdrom *v1.ISCSICdrom) *metav1.Condition {
	if !f.streamed {
		return nil
	}
	c := &metav1.Condition{
		Type: v1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: f.reason, ObservedGeneration: cdrom.Generation,
	}
	switch f.reason {
	case "":
		c.Status, c.Reason = metav1.ConditionTrue, reasonServed
		c.Message = fmt.Sprintf("release %s of stream %s is served", f.ServedRelease, cdrom.Spec.Stream.Name)
		if f.ServedRelease == "" {
			c.Status, c.Message = metav1.ConditionUnknown, f.ErrorMessage
		}
	case reasonDownloading:
		c.Message = fmt.Sprintf("release %s is being downloaded", f.Release)
	default:
		c.Message = controller.ClipMessage(f.problem)
	}
	return c
}
