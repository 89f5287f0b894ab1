package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
	"glowplug/internal/image/download"
)

// room fails where the disk has no room for what is to come.
func (l *Library) room(p *download.Part) error {
	free, err := l.pace.free(l.opts.Dir)
	if err != nil {
		return nil // it shows when it is written to
	}
	need := l.pace.reserve
	if p.State.Total >= 0 {
		need += uint64(p.State.Total - p.State.Offset)
	}
	if free < need {
		return fmt.Errorf("%w: %d MB are free, %d MB are needed", errDiskFull, free>>20, need>>20)
	}
	return nil
}

// arrive puts a whole part in the place of the image: an ISO image, with the
// digest that was asked for, of an object that still wants it. Then it is looked
// at. o is what was ordered; nil: it was uploaded.
func (l *Library) arrive(im *image, cdrom *v1.ISCSICdrom, p *download.Part, want string, o *order, wanted func(*v1.ISCSICdrom) error) error {
	sum := p.Sum()
	if want != "" && !strings.EqualFold(want, sum) {
		return fmt.Errorf("%w: its SHA-256 is not %s", errBadImage, strings.ToLower(want))
	}
	if err := p.Sync(); err != nil {
		return err
	}
	img, err := iso.Open(p, p.State.Offset)
	if err != nil {
		return fmt.Errorf("%w: %v", errBadImage, err)
	}
	if o != nil {
		if err := l.improves(im, cdrom, &volume{img: img, sha256: sum}); err != nil {
			return err
		}
	}
	im.work.Lock()
	err = l.place(im.ref, cdrom, p, sum, o, wanted)
	im.work.Unlock()
	if err != nil {
		return err
	}
	l.awaitSeen(im, cdrom)
	if _, err := l.reconcile(l.ctx, im.ref); err != nil {
		l.queue.AddRateLimited(im.ref)
	}
	return nil
}

// improves fails where machines could not be given an image that was downloaded, and
// can be given the one whose place it would take. It is kept: other arguments of
// the object may be the remedy.
func (l *Library) improves(im *image, cdrom *v1.ISCSICdrom, v *volume) error {
	l.mu.Lock()
	served := im.current != nil && im.failure == nil
	if im.cdrom != nil && im.cdrom.UID == cdrom.UID {
		cdrom = im.cdrom
	}
	l.mu.Unlock()
	if !served {
		return nil
	}
	if _, err := l.customize(v, cdrom, nil); err != nil {
		return download.Permanent("its kernel arguments cannot be set: %w", err)
	}
	return nil
}

// awaitSeen waits for a CD-ROM that was made a moment ago to be on the shelf.
func (l *Library) awaitSeen(im *image, cdrom *v1.ISCSICdrom) {
	for range 100 {
		l.mu.Lock()
		seen := im.cdrom != nil && im.cdrom.UID == cdrom.UID
		l.mu.Unlock()
		if seen || l.ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *Library) place(ref Ref, cdrom *v1.ISCSICdrom, p *download.Part, sum string, o *order, wanted func(*v1.ISCSICdrom) error) error {
	if err := l.wanted(ref, cdrom, wanted); err != nil {
		return err
	}
	streamed := o != nil && o.of.Stream != ""
	if streamed {
		if err := l.addRelease(cdrom, o, l.opts.Keyring != nil); err != nil {
			return err
		}
	}
	if err := l.commit(p, imageFile, sum); err != nil {
		return err
	}
	if streamed {
		l.tidy(cdrom, o)
	}
	return nil
}

// wanted looks at an object as it is stored now.
func (l *Library) wanted(ref Ref, cdrom *v1.ISCSICdrom, check func(*v1.ISCSICdrom) error) error {
	ctx, cancel := context.WithTimeout(l.ctx, statusTimeout)
	defer cancel()
	now, err := l.get(ctx, ref)
	if err != nil {
		return err
	}
	if now.UID != cdrom.UID {
		return errDeleted
	}
	return check(now)
}

// has tells whether a file of a set is there, as it should be.
func (l *Library) has(ctx context.Context, cdrom *v1.ISCSICdrom, d *fetch, f *ordered) bool {
	trusted := l.opts.Keyring == nil || d.signed[f.name]
	for _, e := range l.readManifest(cdrom).Releases {
		for _, there := range e.Files {
			trusted = trusted || there.Name == f.name && l.trusts(&e)
		}
	}
	if !trusted {
		return false
	}
	file, err := l.root.Open(f.pathOf(cdrom))
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if errors.Is(checkArtifact(f.role, file, info.Size()), errBadImage) { // an earlier release took it
		if err := l.root.Remove(f.pathOf(cdrom)); err != nil {
			l.opts.Logger.Warn("a file that is no image cannot be removed", "error", err)
		}
		return false
	}
	sum, err := l.digests.of(ctx, file, identityOf(info))
	return err == nil && strings.EqualFold(sum, f.source.SHA256)
}

// keepFile gives a whole file of a set its name, if it is what its role says. It is not
// served before all have come.
func (l *Library) keepFile(p *download.Part, f *ordered) error {
	if err := checkArtifact(f.role, p, p.State.Offset); err != nil {
		return err
	}
	if err := p.Sync(); err != nil {
		return err
	}
	return l.commit(p, f.name, strings.ToLower(f.source.SHA256))
}

// commit gives a part that has come whole its name, which changes its identity.
func (l *Library) commit(p *download.Part, name, sum string) error {
	if err := p.Commit(name); err != nil {
		return err
	}
	if info, err := p.Stat(); err == nil {
		l.digests.remember(identityOf(info), sum)
	}
	return nil
}

// arriveSet makes a set that has come whole the one that is served.
func (l *Library) arriveSet(im *image, cdrom *v1.ISCSICdrom, d *fetch) error {
	im.work.Lock()
	err := l.wanted(im.ref, cdrom, l.stillWanted(d))
	if err == nil {
		err = l.addRelease(cdrom, d.order, l.opts.Keyring != nil)
	}
	im.work.Unlock()
	if err != nil {
		return err
	}
	l.awaitSeen(im, cdrom)
	if _, err := l.reconcile(l.ctx, im.ref); err != nil {
		l.queue.AddRateLimited(im.ref)
	}
	im.work.Lock() // what was there before has been opened, or is not needed
	defer im.work.Unlock()
	l.tidy(cdrom, d.order)
	return nil
}
