package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/iso"
)

// Disk is an image as one machine is to see it: the file with kernel arguments
// set. Its bytes never change: where the file's do, reading fails. It can be read until
// Release by any number of goroutines.
type Disk struct {
	lib     *Library
	image   *served
	volume  *Volume
	overlay *iso.Overlay
	uid     types.UID // the CD-ROM's
	reader  string
	release sync.Once
	// counted is true where the volume counts the disk.
	counted bool
	// released is set under Library.mu: there is no subscriber any more.
	released bool
}

// Disk returns a CD-ROM's image. args are a machine's own kernel arguments, which
// are set beside those of the image and take the place of those with the same
// name. The caller must Release it. The error is a fault.Error: NoMatch where
// there is no such CD-ROM or nothing to read, Unavailable where that may pass.
func (l *Library) Disk(ref Ref, args []string) (*Disk, error) { return l.DiskOf(ref, "", args, "") }

// DiskAgain is Disk for a reader that has a name, such as an iSCSI initiator. One
// that comes back within a moment, as a kernel does after its boot loader or after
// its connection was lost, is given the image that it had, also where another has
// taken its place meanwhile: half of one release and half of another is neither.
func (l *Library) DiskAgain(ref Ref, reader string, args []string, token string) (*Disk, error) {
	version := ""
	l.mu.Lock()
	if im := l.images[ref]; im != nil {
		now := l.opts.Now()
		had := func(one formerImage) bool {
			return one.Volume != nil && now.Sub(one.Volume.hadBy(reader)) < readerPause
		}
		if i := slices.IndexFunc(im.former, had); i >= 0 {
			version = im.former[i].Version()
		}
	}
	l.mu.Unlock()
	d, err := l.DiskOf(ref, version, args, token)
	if err == nil {
		d.reader = reader
		d.volume.rememberReader(reader, l.opts.Now())
	}
	return d, err
}

// DiskOf is Disk for a certain version of the image, as Version names it: also for
// a while after another has taken its place. The URLs in its arguments carry the token of
// the machine's boot, unless that is "".
func (l *Library) DiskOf(ref Ref, version string, args []string, token string) (*Disk, error) {
	l.mu.Lock()
	im := l.images[ref]
	if im == nil || im.cdrom == nil {
		defer l.mu.Unlock()
		return nil, l.absentLocked(ref)
	}
	cdrom, content := im.cdrom, im.content
	older := version != "" && content.Version() != version
	if older {
		if content = im.former.find(version); content.Volume == nil {
			defer l.mu.Unlock()
			return nil, goneBy(ref, version)
		}
	}
	v, failure := content.Volume, content.Failure
	if v != nil && failure == nil {
		failure = v.hold()
	}
	l.mu.Unlock()
	switch {
	case cdrom.Spec.External != nil:
		return nil, fault.New(fault.NoMatch, fmt.Sprintf("ISCSICdrom %s is served by another target", ref))
	case Format(cdrom) == v1.FormatPXE:
		return nil, fault.New(fault.NoMatch, fmt.Sprintf("ISCSICdrom %s is a kernel and an initramfs, and no ISO image", ref))
	case failure != nil:
		return nil, unavailable(ref, failure)
	case v == nil:
		return nil, unavailable(ref, errors.New("it has no image yet"))
	}
	d := &Disk{lib: l, image: im, volume: v, uid: cdrom.UID}
	if !older { // one that has no name any more is not written to
		if err := l.check(im, v); err != nil {
			d.Release()
			return nil, unavailable(ref, err)
		}
	}
	var err error
	if d.overlay, err = l.Overlay(v, cdrom, args, token); err != nil {
		d.Release()
		return nil, unset(ref, args, err)
	}
	d.counted = true
	v.disks.Add(1)
	return d, nil
}

// Overlay sets the default arguments of the distribution, those of the CD-ROM, and a machine's own, with
// the token of its boot in their URLs. Of one name the last one counts.
func (l *Library) Overlay(v *Volume, cdrom *v1.ISCSICdrom, own []string, token string) (*iso.Overlay, error) {
	o := iso.Options{NoDefault: true, BaseURL: l.opts.HTTPURL}
	if cdrom.Spec.Transport == v1.TransportHTTP && l.opts.HTTPURL != "" {
		// There is no iBFT that would lead back to the image.
		base := strings.TrimSuffix(l.opts.HTTPURL, "/")
		o.FilesURL = base + "/iso/" + versioned(cdrom, versionOf(v.SHA256)) + "/files"
	}
	if cdrom.Spec.WantsDefaultKernelArgs() {
		o.Args = v.Image.DefaultArgs(o.FilesURL)
	}
	o.Args = v1.MergeKernelArgs(v1.MergeKernelArgs(o.Args, cdrom.Spec.KernelArgs), own)
	return v.overlay(o, token)
}

// Size is the number of bytes.
func (d *Disk) Size() int64 { return d.overlay.Size() }

// ReadAt reads the disk, its patches included. It fails as Check does.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.overlay.ReadAt(p, off)
	if changed := d.Check(); changed != nil {
		return 0, changed
	}
	return n, err
}

// Check says why what was read before is not to be delivered: the file was written to
// in place. Whoever reads the segments asks for himself, after he has read them. The
// error is ErrChanging where the file may prove to have the same content still.
func (d *Disk) Check() error { return d.lib.check(d.image, d.volume) }

// AppendSegments adds the segments of the n bytes at off to dst. It leaves out bytes
// beyond the end, and does not allocate where dst has room. The source of a segment is
// the file, which stays open until Release.
func (d *Disk) AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment {
	return d.overlay.AppendSegments(dst, off, n)
}

// Lookup finds a file and its place on the disk. A patched file may be longer than in the
// image, and its place may be after the end of the image.
func (d *Disk) Lookup(path string) (iso.File, error) { return d.overlay.Image().Lookup(path) }

// Args are the kernel arguments that are set.
func (d *Disk) Args() []string { return d.overlay.Args() }

// ETag names the bytes of the disk, in quotes: the digest of the file and of
// what is set in it.
func (d *Disk) ETag() string {
	if args := d.overlay.Args(); len(args) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
		return `"` + d.volume.SHA256 + "-" + hex.EncodeToString(sum[:8]) + `"`
	}
	return `"` + d.volume.SHA256 + `"`
}

// Deleted reports whether the CD-ROM is no longer there, though another may have its
// name by now. The disk can be read all the same.
func (d *Disk) Deleted() bool {
	d.lib.mu.Lock()
	defer d.lib.mu.Unlock()
	return d.image.cdrom == nil || d.image.cdrom.UID != d.uid
}

// Subscribe says who reads the disk until Release: it shows in the CD-ROM's
// status, and the CD-ROM is then in use. Since is now where it is nil.
func (d *Disk) Subscribe(by v1.Subscriber) {
	l := d.lib
	if by.Since == nil {
		by.Since = &metav1.Time{Time: l.opts.Now()}
	}
	l.mu.Lock()
	if !d.released {
		d.image.readers[d] = by
	}
	l.mu.Unlock()
	l.due.Publish(Due{d.image.ref, readersPause})
}

// Release ends the use of the disk. It may be called again.
func (d *Disk) Release() {
	d.release.Do(func() {
		l := d.lib
		l.mu.Lock()
		d.released = true
		_, subscribed := d.image.readers[d]
		delete(d.image.readers, d)
		l.pruneLocked(d.image)
		l.mu.Unlock()
		if subscribed {
			l.due.Publish(Due{d.image.ref, readersPause})
		}
		d.volume.rememberReader(d.reader, l.opts.Now())
		if d.counted {
			d.volume.disks.Add(-1)
		}
		_ = d.volume.Drop()
	})
}

// InUse names the readers of a CD-ROM's image, each once, in order; where the store is
// shared, also those that another server has put into its status.
func (l *Library) InUse(ref Ref) []string {
	all := l.Subscribers(ref)
	if cdrom := l.Cdrom(ref); cdrom != nil && l.opts.Shared {
		all = append(all, cdrom.Status.Subscribers...)
	}
	var names []string
	for _, s := range all {
		name := cmp.Or(s.Name, s.InitiatorIQN)
		if s.Name != "" && s.InitiatorIQN != "" {
			name = s.Name + " (" + s.InitiatorIQN + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readersPause collects the logins of a storm in one write of the status.
const readersPause = 2 * time.Second

// Subscribers returns the readers of an image, in the order in which they came.
func (l *Library) Subscribers(ref Ref) []v1.Subscriber {
	l.mu.Lock()
	defer l.mu.Unlock()
	im := l.images[ref]
	if im == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(im.readers), func(a, b v1.Subscriber) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.InitiatorIQN, b.InitiatorIQN), cmp.Compare(a.Name, b.Name))
	})
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
