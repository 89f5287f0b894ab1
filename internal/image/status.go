package image

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
)

const (
	// statusPause lets a storm of logins come to one write.
	statusPause   = 2 * time.Second
	statusTimeout = 10 * time.Second
	maxMessage    = 1024
)

// errOther is for an object that is another one by now; it has a look of its own.
var errOther = errors.New("the object has changed")

// status is what the object's status is to be.
func (l *Library) status(cdrom *v1.ISCSICdrom, f *finding) v1.ISCSICdromStatus {
	s := v1.ISCSICdromStatus{Phase: f.phase, ErrorMessage: clip(f.message)}
	if external := cdrom.Spec.External; external != nil {
		s.TargetIQN = external.IQN
		if portal, ok := portalOf(external.Portal); ok {
			s.PortalIP, s.PortalPort = portal.Addr().String(), int32(portal.Port())
		}
		return s
	}
	if f.streamed {
		s.Release, s.ServedRelease, s.MaxIgnition = f.release, f.servedRelease, f.maxIgnition
	}
	s.Download = f.download
	if formatOf(cdrom) == v1.FormatPXE {
		if f.set != nil {
			s.SHA256 = f.set.sum
			s.Distro = f.set.distro()
			for _, e := range f.set.files {
				s.Files = append(s.Files, v1.ImageFile{Role: e.role, Size: e.id.Size, SHA256: e.sha256})
				s.ISOSize += e.id.Size
			}
		}
		return s
	}
	s.TargetIQN = IQN(refOf(cdrom))
	if l.opts.Portal.IsValid() {
		s.PortalIP, s.PortalPort = l.opts.Portal.Addr().String(), int32(l.opts.Portal.Port())
	}
	if v := f.volume; v != nil {
		s.ISOPath = filepath.Join(l.opts.Dir, filepath.FromSlash(v.path))
		s.ISOSize = v.id.Load().Size
		s.SHA256 = v.sha256
		s.VolumeID = v.img.VolumeID()
		s.Distro = v.img.Distro()
	}
	if f.overlay != nil {
		s.KernelArgsApplied = f.overlay.Args()
		s.PatchedFiles = f.overlay.Patched()
	}
	s.Subscribers = l.subscribers(refOf(cdrom))
	if len(s.Subscribers) > maxSubscribers {
		s.Subscribers = s.Subscribers[:maxSubscribers]
	}
	return s
}

func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return message[:maxMessage] + "…"
}

// writeStatus writes it, unless the object has changed meanwhile.
func (l *Library) writeStatus(ctx context.Context, im *image, cdrom *v1.ISCSICdrom, f *finding) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	told := l.status(cdrom, f)
	status := told
	l.mu.Lock()
	silent := im.silent
	l.mu.Unlock()
	var before v1.ISCSICdromStatus
	err := l.opts.Store.GuaranteedUpdate(ctx, storeKey(im.ref), &v1.ISCSICdrom{}, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			current := obj.(*v1.ISCSICdrom)
			if current.UID != cdrom.UID || current.Generation != cdrom.Generation {
				return nil, errOther
			}
			if was := current.Status.Release; f.streamed && was != "" && f.release != was && pinned(current) {
				return nil, errOther // another server was first
			}
			status.Conditions = slices.Clone(current.Status.Conditions)
			if cdrom.Spec.Stream != nil && !f.streamed {
				// What has not been looked at stays: the release that it is pinned to.
				s := &current.Status
				status.Release, status.ServedRelease, status.MaxIgnition = s.Release, s.ServedRelease, s.MaxIgnition
			} else if c := f.condition(cdrom); c != nil {
				c.LastTransitionTime = metav1.Time{Time: l.opts.Now()}
				meta.SetStatusCondition(&status.Conditions, *c)
			} else {
				status.Conditions = nil
			}
			if len(told.Subscribers) == 0 && silent && l.opts.Shared {
				status.Subscribers = current.Status.Subscribers
			}
			before = current.Status
			current.Status = status
			return current, nil
		}), nil)
	switch {
	case errors.Is(err, errOther) || storage.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	l.mu.Lock()
	changed := im.phase != f.phase
	restarted := im.phase == "" && cdrom.Status.Phase == f.phase
	im.phase, im.silent = f.phase, len(told.Subscribers) == 0
	l.mu.Unlock()
	if changed && !restarted {
		l.record(cdrom, &status)
	} else if f.streamed {
		l.recordRelease(cdrom, &before, &status)
	}
	return nil
}

// pinned tells whether an image stays on the release that it was first of.
func pinned(cdrom *v1.ISCSICdrom) bool {
	s := cdrom.Spec.Stream
	return s != nil && s.Release == "" && s.WithDefaults().Update == v1.UpdatePinned
}

// recordRelease makes an event of an image that has taken another release, or that
// cannot.
func (l *Library) recordRelease(cdrom *v1.ISCSICdrom, before, after *v1.ISCSICdromStatus) {
	if l.opts.Recorder == nil {
		return
	}
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
		l.opts.Recorder.Record(objectOf(cdrom), v1.EventNormal, "ReleaseReady",
			fmt.Sprintf("release %s is served to new sessions, in the place of %s", after.ServedRelease, before.ServedRelease))
	case (reason == reasonFailed || reason == reasonUnresolved) && (was != reason || said != message):
		l.opts.Recorder.Record(objectOf(cdrom), v1.EventWarning, "ReleaseFailed", message)
	}
}

func objectOf(cdrom *v1.ISCSICdrom) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String(),
		Namespace: cdrom.Namespace, Name: cdrom.Name, UID: string(cdrom.UID),
	}
}

// record makes an event of an image that has become ready, or has failed.
func (l *Library) record(cdrom *v1.ISCSICdrom, status *v1.ISCSICdromStatus) {
	if l.opts.Recorder == nil {
		return
	}
	ref := objectOf(cdrom)
	switch status.Phase {
	case v1.PhaseReady:
		message := "the image is served by another target"
		if len(status.Files) > 0 {
			message = fmt.Sprintf("%d files, %d bytes", len(status.Files), status.ISOSize)
		} else if cdrom.Spec.External == nil {
			message = fmt.Sprintf("%s, %d bytes, %d files patched", status.Distro, status.ISOSize, len(status.PatchedFiles))
		}
		l.opts.Recorder.Record(ref, v1.EventNormal, "ImageReady", message)
	case v1.PhaseError:
		l.opts.Recorder.Record(ref, v1.EventWarning, "ImageFailed", status.ErrorMessage)
	}
}

// iscsiPort is where an external target listens that names no port.
const iscsiPort = 3260

// portalOf gives the address of an external target; one that has a name instead
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
