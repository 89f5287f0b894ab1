package image

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/image"
)

const (
	// maxSubscribers bounds the readers that a status shows.
	maxSubscribers = 100
	statusTimeout  = 10 * time.Second
)

// statusWriter writes the status of CD-ROMs, and the events of its changes.
type statusWriter struct {
	*Options

	mu   sync.Mutex
	last map[Ref]written
}

// written is the status of a CD-ROM that was written last.
type written struct {
	phase string
	// silent is true where the status has no readers of this server: those that it shows
	// are another's.
	silent bool
}

// forget forgets the status of an object that was deleted.
func (w *statusWriter) forget(ref Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, ref)
}

// count returns the number of CD-ROMs with a phase.
func (w *statusWriter) count(phase string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, last := range w.last {
		if last.phase == phase {
			n++
		}
	}
	return n
}

// status returns the status of an object with a finding.
func (w *statusWriter) status(cdrom *v1.ISCSICdrom, f *finding) v1.ISCSICdromStatus {
	s := f.ISCSICdromStatus
	s.ErrorMessage = controller.ClipMessage(s.ErrorMessage)
	if external := cdrom.Spec.External; external != nil {
		s.TargetIQN = external.IQN
		if portal, ok := portalOf(external.Portal); ok {
			s.PortalIP, s.PortalPort = portal.Addr().String(), int32(portal.Port())
		}
		return s
	}
	if image.Format(cdrom) == v1.FormatPXE {
		if f.Set != nil {
			s.SHA256 = f.Set.Sum
			s.Distro = f.Set.Distro()
			s.Architectures = streamArchitecture(cdrom)
			for _, e := range f.Set.Files {
				s.Files = append(s.Files, v1.ImageFile{Role: e.Role, Size: e.Size, SHA256: e.SHA256})
				s.ISOSize += e.Size
			}
		}
		return s
	}
	s.TargetIQN = image.IQN(image.RefOf(cdrom))
	if w.Portal.IsValid() {
		s.PortalIP, s.PortalPort = w.Portal.Addr().String(), int32(w.Portal.Port())
	}
	if v := f.Volume; v != nil {
		s.ISOPath = filepath.Join(w.Dir, filepath.FromSlash(v.Path))
		s.ISOSize = v.Size()
		s.SHA256 = v.SHA256
		s.VolumeID = v.Image.VolumeID()
		s.Distro = v.Image.Distro()
		if s.Architectures = v.Image.Architectures(); len(s.Architectures) == 0 {
			s.Architectures = streamArchitecture(cdrom)
		}
	}
	if f.overlay != nil {
		s.KernelArgsApplied = f.overlay.Args()
		s.OwnKernelArgs = f.overlay.OwnArgs()
		s.PatchedFiles = f.overlay.Patched()
	}
	s.Subscribers = w.Library.Subscribers(image.RefOf(cdrom))
	s.Subscribers = s.Subscribers[:min(len(s.Subscribers), maxSubscribers)]
	return s
}

// streamArchitecture returns the architecture of an image of a stream, none for others.
func streamArchitecture(cdrom *v1.ISCSICdrom) []string {
	if cdrom.Spec.Stream == nil {
		return nil
	}
	return []string{cdrom.Spec.Stream.WithDefaults().Architecture}
}

// write writes the status of a CD-ROM, unless the object has changed meanwhile.
func (w *statusWriter) write(ctx context.Context, cdrom *v1.ISCSICdrom, f *finding) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	ref, own := image.RefOf(cdrom), w.status(cdrom, f)
	status := own
	w.mu.Lock()
	last := w.last[ref]
	w.mu.Unlock()
	var before v1.ISCSICdromStatus
	stored, err := controller.Update(ctx, w.Store, storeKey(ref), func(current *v1.ISCSICdrom) error {
		if current.UID != cdrom.UID || current.Generation != cdrom.Generation {
			return controller.ErrUnchanged // it is another one by now, which has a look of its own
		}
		if was := current.Status.Release; f.streamed && was != "" && f.Release != was && pinned(current) {
			return controller.ErrUnchanged // another server was first
		}
		status.Conditions = slices.Clone(current.Status.Conditions)
		if cdrom.Spec.Stream != nil && !f.streamed {
			// What has not been looked at stays: the release that it is pinned to.
			s := &current.Status
			status.Release, status.ServedRelease, status.MaxIgnition = s.Release, s.ServedRelease, s.MaxIgnition
		} else {
			w.setCondition(&status.Conditions, v1.ConditionUpToDate, f.condition(cdrom))
		}
		w.setCondition(&status.Conditions, v1.ConditionConfigArgument, f.configArgument(cdrom))
		v1.SetReady(&status.Conditions, status.Phase, status.ErrorMessage, false, current.Generation, w.Now())
		if len(own.Subscribers) == 0 && last.silent && w.Shared {
			status.Subscribers = current.Status.Subscribers
		}
		before = current.Status
		current.Status = status
		return nil
	})
	if stored == nil {
		return err
	}
	w.mu.Lock()
	w.last[ref] = written{f.Phase, len(own.Subscribers) == 0}
	w.mu.Unlock()
	restarted := last.phase == "" && cdrom.Status.Phase == f.Phase
	if last.phase != f.Phase && !restarted {
		w.record(cdrom, &status)
	} else if f.streamed {
		w.recordRelease(cdrom, &before, &status)
	}
	return nil
}

// setCondition sets a condition of a kind, or removes it where it is nil.
func (w *statusWriter) setCondition(conditions *[]metav1.Condition, kind string, c *metav1.Condition) {
	if c == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	c.LastTransitionTime = metav1.Time{Time: w.Now()}
	meta.SetStatusCondition(conditions, *c)
}

// pinned reports whether an image stays on the release that it was first of.
func pinned(cdrom *v1.ISCSICdrom) bool {
	s := cdrom.Spec.Stream
	return s != nil && s.Release == "" && s.WithDefaults().Update == v1.UpdatePinned
}

// recordRelease makes an event of an image that has taken another release, or that
// cannot.
func (w *statusWriter) recordRelease(cdrom *v1.ISCSICdrom, before, after *v1.ISCSICdromStatus) {
	reasonOf := func(s *v1.ISCSICdromStatus) (reason, message string) {
		if c := meta.FindStatusCondition(s.Conditions, v1.ConditionUpToDate); c != nil {
			return c.Reason, c.Message
		}
		return "", ""
	}
	was, said := reasonOf(before)
	reason, message := reasonOf(after)
	switch {
	case after.ServedRelease != "" && before.ServedRelease != "" && after.ServedRelease != before.ServedRelease:
		w.Recorder.Record(objectOf(cdrom), v1.EventNormal, "ReleaseReady",
			fmt.Sprintf("release %s is served to new sessions, in the place of %s", after.ServedRelease, before.ServedRelease))
	case (reason == reasonFailed || reason == reasonUnresolved) && (was != reason || said != message):
		w.Recorder.Record(objectOf(cdrom), v1.EventWarning, "ReleaseFailed", message)
	}
}

func objectOf(cdrom *v1.ISCSICdrom) v1.ObjectReference {
	return controller.Reference("ISCSICdrom", image.RefOf(cdrom), cdrom.UID)
}

// record makes an event of an image that has become ready, or has failed.
func (w *statusWriter) record(cdrom *v1.ISCSICdrom, status *v1.ISCSICdromStatus) {
	ref := objectOf(cdrom)
	switch status.Phase {
	case v1.PhaseReady:
		message := "the image is served by another target"
		if len(status.Files) > 0 {
			message = fmt.Sprintf("%d files, %d bytes", len(status.Files), status.ISOSize)
		} else if cdrom.Spec.External == nil {
			message = fmt.Sprintf("%s, %d bytes, patched files: %d", status.Distro, status.ISOSize, len(status.PatchedFiles))
		}
		w.Recorder.Record(ref, v1.EventNormal, "ImageReady", message)
	case v1.PhaseError:
		w.Recorder.Record(ref, v1.EventWarning, "ImageFailed", status.ErrorMessage)
	}
}

// iscsiPort is where an external target listens that names no port.
const iscsiPort = 3260

// portalOf returns the address of an external target; one that has a name instead
// has none.
func portalOf(text string) (netip.AddrPort, bool) {
	if portal, err := netip.ParseAddrPort(text); err == nil {
		return portal, true
	}
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(addr, iscsiPort), true
	}
	return netip.AddrPort{}, false
}
