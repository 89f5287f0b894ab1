package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
)

// Reasons of the condition UpToDate.
const (
	reasonServed      = "Served"
	reasonDownloading = "Downloading"
	reasonFailed      = "DownloadFailed"
	reasonUnresolved  = "NotResolved"
)

// StreamChanged has the images of a stream looked at: another release may be its
// current one.
func (l *Library) StreamChanged(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ref, im := range l.shelf {
		if im.cdrom != nil && im.cdrom.Spec.Stream != nil && im.cdrom.Spec.Stream.Name == stream {
			l.queue.Add(ref)
		}
	}
}

// held is what is there of an image of a stream: a volume or a set, which the
// caller has to give on, and the release that it is of.
type held struct {
	volume *volume
	set    *set
	of     origin
	// sum is over the digests of its files; signed is true where their signatures were
	// looked at.
	sum    string
	signed bool
	// same is true where the image is of what the object names, but perhaps of
	// another release.
	same bool
}

func (h *held) there() bool { return h.volume != nil || h.set != nil }

// lookStream finds out what there is of the image of a CD-ROM of a stream, and
// orders what is missing. An image that is there is served until another one has
// come, whatever becomes of that.
func (l *Library) lookStream(ctx context.Context, im *image, cdrom *v1.ISCSICdrom) finding {
	h, err := l.hold(ctx, im, cdrom)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.opts.Logger.Warn("an image is fetched again", "image", im.ref.String(), "error", err)
	}
	o, err := l.orderOf(cdrom)
	if errors.Is(err, errUnread) {
		f := l.servedStream(cdrom, &h, nil)
		if !h.there() {
			f = finding{phase: v1.PhasePending, message: err.Error(), failure: err}
		}
		f.release, f.again = cdrom.Status.Release, l.pace.settle+retryFirst
		return f
	}
	if err != nil {
		l.endDownload(im)
		f := l.servedStream(cdrom, &h, fmt.Errorf("spec.stream: %w", err))
		f.reason, f.release, f.again = reasonUnresolved, cdrom.Status.Release, retryMax
		return f
	}
	if h.there() && h.same && h.sum == o.sum() {
		l.endDownload(im)
		if h.of != o.of { // the same bytes, of which something else is told now
			if err := l.addRelease(cdrom, o, h.signed); err != nil {
				l.opts.Logger.Warn("what an image is of cannot be written down", "image", im.ref.String(), "error", err)
			}
			h.of = o.of
		}
		f := l.servedStream(cdrom, &h, nil)
		f.release = o.of.Release
		return f
	}
	problem := l.startDownload(im, cdrom, o)
	f := l.servedStream(cdrom, &h, problem)
	f.release, f.reason = o.of.Release, reasonDownloading
	if problem != nil {
		f.reason = reasonFailed
	}
	if !h.there() || !h.same {
		f.maxIgnition, f.phase = o.of.MaxIgnition, v1.PhaseUploading
		if problem != nil {
			f.phase = v1.PhaseError
		} else if !h.there() {
			f.failure = errors.New("it is being downloaded")
		}
	}
	f.download = l.downloading(im)
	return f
}

// hold gives what is there of an image.
func (l *Library) hold(ctx context.Context, im *image, cdrom *v1.ISCSICdrom) (h held, err error) {
	want := originOf(cdrom.Spec.Stream)
	m := l.readManifest(cdrom)
	if want.Format == v1.FormatPXE {
		l.saw(im, statIdentity(l.root, path.Join(ownFolder(cdrom), manifestFile)))
		l.mu.Lock()
		current := im.set
		l.mu.Unlock()
		err = fs.ErrNotExist
		for i := range m.Releases {
			e := &m.Releases[i]
			if e.Format != v1.FormatPXE || !l.trusts(e) {
				continue
			}
			if current.is(e) {
				h.set, err = current, nil
			} else {
				h.set, err = l.openSet(ctx, cdrom, e)
			}
			if err == nil {
				h.of, h.same, h.sum, h.signed = e.origin, e.sameSeries(want), e.sum(), e.Signed
				return h, nil
			}
		}
		return h, err
	}
	h.volume, err = l.open(ctx, im, ownFile(cdrom), func() { l.announce(ctx, im, cdrom) })
	if err != nil {
		return held{}, err
	}
	if e := m.releaseOf(h.volume.sha256); e != nil {
		if !l.trusts(e) {
			l.letGo(im, h.volume)
			return held{}, fs.ErrNotExist
		}
		h.of, h.same, h.sum, h.signed = e.origin, e.sameSeries(want), e.sum(), e.Signed
	}
	return h, nil
}

// letGo closes a volume that is not to be served, unless it is.
func (l *Library) letGo(im *image, v *volume) {
	l.mu.Lock()
	current := im.current
	l.mu.Unlock()
	if v != current {
		_ = v.drop()
	}
}

// originOf is the part of an origin that an object names.
func originOf(s *v1.StreamImage) origin {
	d := s.WithDefaults()
	return origin{Stream: d.Name, Architecture: d.Architecture, Artifact: d.Artifact, Format: d.Format}
}

// servedStream is the finding of what is there: Ready, also where something is
// wrong with what is to take its place.
func (l *Library) servedStream(cdrom *v1.ISCSICdrom, h *held, problem error) finding {
	var f finding
	switch {
	case h.volume != nil:
		f = l.served(cdrom, h.volume)
	case h.set != nil:
		f = finding{phase: v1.PhaseReady, set: h.set}
	default:
		f = finding{phase: v1.PhaseError, failure: errors.New("it has no image yet")}
	}
	f.servedRelease, f.maxIgnition = h.of.Release, h.of.MaxIgnition
	f.streamed = true
	if problem == nil {
		return f
	}
	f.problem = problem.Error()
	if f.message == "" {
		f.message = f.problem
		if h.there() && h.same {
			f.message += fmt.Sprintf("; release %s is still served", h.of.Release)
		}
	}
	if !h.there() {
		f.failure = problem
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
		c.Message = fmt.Sprintf("release %s of stream %s is served", f.servedRelease, cdrom.Spec.Stream.Name)
		if f.servedRelease == "" {
			c.Status, c.Message = metav1.ConditionUnknown, f.message
		}
	case reasonDownloading:
		c.Message = fmt.Sprintf("release %s is being downloaded", f.release)
	default:
		c.Message = clip(f.problem)
	}
	return c
}

// formatOf tells whether an image is an ISO or a set of files: v1.FormatISO or
// v1.FormatPXE.
func formatOf(cdrom *v1.ISCSICdrom) string {
	if cdrom.Spec.Stream == nil {
		return v1.FormatISO
	}
	return cdrom.Spec.Stream.WithDefaults().Format
}

// absent is the answer where there is no CD-ROM. l.mu must be held.
func (l *Library) absent(ref Ref) error {
	if !l.loaded {
		return fault.New(fault.Unavailable, "the images have not been read yet")
	}
	return fault.New(fault.NoMatch, fmt.Sprintf("there is no ISCSICdrom %s", ref))
}

// versioned is the name of an image in paths over HTTP: with its version where
// another one may take its place while a machine boots.
func versioned(cdrom *v1.ISCSICdrom, version string) string {
	name := cdrom.Namespace + "/" + cdrom.Name
	if cdrom.Spec.Stream == nil || version == "" {
		return name
	}
	return name + "@" + strings.ToLower(version)
}
