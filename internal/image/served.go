package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
)

// served is one CD-ROM and the files that are open of it. It is guarded by the lock of
// its Library.
type served struct {
	ref Ref
	// cdrom is the latest state of the object; nil: there is none.
	cdrom *v1.ISCSICdrom
	// content is served, or the reason why nothing is.
	content Content
	// former were served before.
	former former
	// doubted are the volumes whose files have changed while they were read, each held.
	doubted []*Volume
	// seen is the identity of the file when it was opened last.
	seen    identity
	readers map[*Disk]v1.Subscriber
}

// Content is the content of an image: a volume, or a set where the image is several
// files. Failure is the reason why neither is served.
type Content struct {
	Volume  *Volume
	Set     *Set
	Failure error
}

// Exists reports whether there is a volume or a set.
func (c *Content) Exists() bool { return c.Volume != nil || c.Set != nil }

// Version names the bytes of the files, in a few digits; "" where there are none.
func (c *Content) Version() string {
	switch {
	case c.Volume != nil:
		return versionOf(c.Volume.SHA256)
	case c.Set != nil:
		return versionOf(c.Set.Sum)
	}
	return ""
}

// drop ends the use of the files.
func (c *Content) drop() error { return errors.Join(c.Volume.Drop(), c.Set.Drop()) }

// without returns the files that another content does not have.
func (c *Content) without(other Content) (rest Content) {
	if c.Volume != other.Volume {
		rest.Volume = c.Volume
	}
	if c.Set != other.Set {
		rest.Set = c.Set
	}
	return rest
}

// Loaded says that all CD-ROMs have been put: those that were not do not exist.
func (l *Library) Loaded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loaded = true
}

// Put makes an object the latest state of a CD-ROM, and returns the state before it; nil
// where there was none. Nothing is served of an object that takes the place of another.
func (l *Library) Put(cdrom *v1.ISCSICdrom) (before *v1.ISCSICdrom) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref := RefOf(cdrom)
	im := l.images[ref]
	if im == nil {
		im = &served{ref: ref, readers: map[*Disk]v1.Subscriber{}}
		l.images[ref] = im
	}
	before = im.cdrom
	if before != nil && before.UID != cdrom.UID {
		l.forgetLocked(im)
	}
	im.cdrom = cdrom
	return before
}

// Remove ends the serving of a CD-ROM, unless another object has its name by now. Disks
// keep the file.
func (l *Library) Remove(ref Ref, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil && im.cdrom != nil && im.cdrom.UID == uid {
		l.forgetLocked(im)
		l.pruneLocked(im)
	}
}

func (l *Library) forgetLocked(im *served) {
	im.cdrom, im.seen = nil, identity{}
	l.exchangeLocked(im, Content{})
	im.former.clear()
}

// pruneLocked removes the entry of a CD-ROM that does not exist, once it has no reader.
func (l *Library) pruneLocked(im *served) {
	if im.cdrom == nil && len(im.doubted) == 0 && len(im.readers) == 0 && l.images[im.ref] == im {
		delete(l.images, im.ref)
	}
}

// Current returns the volume and the set of a CD-ROM that are served, be it with a
// failure; nil where there is none.
func (l *Library) Current(ref Ref) Content {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil {
		return im.content
	}
	return Content{}
}

// Serve makes c the content of a CD-ROM, and takes it over. It only drops c where ctx is
// over, or where the object is not the one with the UID any more. next is when a former
// version will be closed; 0: there is none.
func (l *Library) Serve(ctx context.Context, ref Ref, uid types.UID, c Content) (next time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	im := l.images[ref]
	if im == nil || im.cdrom == nil || im.cdrom.UID != uid || ctx.Err() != nil {
		if im != nil {
			c = c.without(im.content)
		}
		_ = c.drop()
		return 0, false
	}
	l.exchangeLocked(im, c)
	now := l.opts.Now()
	if expires := im.former.expire(now); !expires.IsZero() {
		next = expires.Sub(now)
	}
	return next, true
}

// Discard drops a content, except what is served.
func (l *Library) Discard(ref Ref, c Content) {
	rest := c.without(l.Current(ref))
	_ = rest.drop()
}

// DropFormer closes the former versions of a CD-ROM, which frees their room on the disk.
func (l *Library) DropFormer(ref Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil {
		im.former.clear()
	}
}

// exchangeLocked makes another content the current one. Of an image of a stream the files
// before it are kept for a while.
func (l *Library) exchangeLocked(im *served, c Content) {
	old := im.content.without(c)
	im.content = c
	switch {
	case !old.Exists():
	case im.cdrom != nil && im.cdrom.Spec.Stream != nil && c.Exists():
		im.former.add(formerImage{old, l.opts.Now().Add(l.opts.Linger)})
	default:
		_ = old.drop()
	}
}

// Changed returns the CD-ROMs whose files are not those that were opened last.
func (l *Library) Changed() []Ref {
	if l.root == nil {
		return nil
	}
	type file struct {
		ref  Ref
		name string
		seen identity
	}
	var files []file
	l.mu.Lock()
	for ref, im := range l.images {
		if im.cdrom != nil && im.cdrom.Spec.External == nil {
			files = append(files, file{ref, fileOf(im.cdrom), im.seen})
		}
	}
	l.mu.Unlock()
	var changed []Ref
	for _, f := range files {
		if l.identityOf(f.name) != f.seen {
			changed = append(changed, f.ref)
		}
	}
	return changed
}

// sawFile remembers the identity of a CD-ROM's file for Changed.
func (l *Library) sawFile(ref Ref, id identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil {
		im.seen = id
	}
}

// RefOf returns the name of a CD-ROM.
func RefOf(cdrom *v1.ISCSICdrom) Ref { return Ref{Namespace: cdrom.Namespace, Name: cdrom.Name} }

// Format returns v1.FormatISO for an image that is an ISO, v1.FormatPXE for one that is
// several files.
func Format(cdrom *v1.ISCSICdrom) string {
	if cdrom.Spec.Stream == nil {
		return v1.FormatISO
	}
	return cdrom.Spec.Stream.WithDefaults().Format
}

const (
	// OwnDir is the folder below the ISO directory that the server keeps itself.
	OwnDir = ".glowplug"
	// ReceivedFile is the name of an ISO image that was received.
	ReceivedFile = "image.iso"
	// ManifestFile names, in the folder of an image of a stream, the releases of its
	// files. It is written before a file takes the place of another, and with a set it
	// is what makes the switch: one small file, in one step.
	ManifestFile = "manifest.json"
)

// OwnFolder is the folder of the files that were received for a CD-ROM, and of those on
// their way.
func OwnFolder(cdrom *v1.ISCSICdrom) string { return path.Join(OwnDir, PlainUID(string(cdrom.UID))) }

// PlainUID keeps a UID from being a path.
func PlainUID(uid string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, uid)
}

// fileOf is the file of a CD-ROM that is no external one; of a set, its manifest.
func fileOf(cdrom *v1.ISCSICdrom) string {
	switch {
	case Format(cdrom) == v1.FormatPXE:
		return path.Join(OwnFolder(cdrom), ManifestFile)
	case cdrom.Spec.ISOFile != "":
		return cdrom.Spec.ISOFile
	}
	return path.Join(OwnFolder(cdrom), ReceivedFile)
}

// identityOf is the identity of a file by its name, zero where there is none.
func (l *Library) identityOf(name string) identity {
	info, err := l.root.Stat(name)
	if err != nil {
		return identity{}
	}
	return identityOf(info)
}

// doubtLocked has a volume verified, whose file has changed under a reader.
func (l *Library) doubtLocked(im *served, v *Volume) {
	if l.images[im.ref] != im || v.hold() != nil {
		v.spoiled.Store(true) // no reader is left that would read it again
		return
	}
	im.doubted = append(im.doubted, v)
}

// doubted returns the volumes of a CD-ROM that are to be verified.
func (l *Library) doubted(ref Ref) []*Volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	if im := l.images[ref]; im != nil {
		return slices.Clone(im.doubted)
	}
	return nil
}

// trusted ends the doubt in a volume.
func (l *Library) trusted(ref Ref, v *Volume) {
	l.mu.Lock()
	if im := l.images[ref]; im != nil {
		im.doubted = slices.DeleteFunc(im.doubted, func(each *Volume) bool { return each == v })
		l.pruneLocked(im)
	}
	l.mu.Unlock()
	_ = v.Drop()
}

// maxFormer is how many images are kept open after others have taken their place.
const maxFormer = 2

// former are the images that others have taken the place of, the newest first. They
// have no names any more, and their room on the disk is free when they are closed.
type former []formerImage

type formerImage struct {
	Content
	until time.Time
}

// add keeps an image, which the caller held.
func (f *former) add(one formerImage) {
	*f = append(former{one}, *f...)
	f.expire(time.Time{})
}

// expire drops the images whose time is over, and those beyond maxFormer. next is when
// the time of the next one is over.
func (f *former) expire(now time.Time) (next time.Time) {
	var kept former
	for _, one := range *f {
		if len(kept) == maxFormer || !one.until.After(now) {
			_ = one.drop()
			continue
		}
		kept = append(kept, one)
		next = one.until
	}
	*f = kept
	return next
}

// clear drops all.
func (f *former) clear() {
	for _, one := range *f {
		_ = one.drop()
	}
	*f = nil
}

// find returns the content with a version; none where there is no such version.
func (f former) find(version string) Content {
	for _, one := range f {
		if one.Version() == version {
			return one.Content
		}
	}
	return Content{}
}

const (
	iqnPrefix = "iqn.2026-11.dev.glowplug:"
	// maxIQN is the longest iSCSI name, RFC 7143 section 4.2.7.1, without the token of a boot.
	maxIQN = 223 - boottoken.TargetRoom
)

// IQN is the target name of a CD-ROM: iqn.2026-11.dev.glowplug:<namespace>:<name>.
// A name that would be too long ends in a digest instead.
func IQN(ref Ref) string {
	iqn := iqnPrefix + ref.Namespace + ":" + ref.Name
	if len(iqn) <= maxIQN {
		return iqn
	}
	sum := sha256.Sum256([]byte(iqn))
	return iqn[:maxIQN-17] + "-" + hex.EncodeToString(sum[:8])
}
