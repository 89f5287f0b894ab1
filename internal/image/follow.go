package image

import (
	"context"
	"errors"
	"os"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
)

const storePrefix = "/iscsicdroms"

func storeKey(ref Ref) string { return storePrefix + "/" + ref.String() }

// follow keeps the shelf like the store until ctx ends.
func (l *Library) follow(ctx context.Context) {
	pause := backoff{retryFirst, 10 * time.Second}
	for failures := 0; ctx.Err() == nil; {
		began := l.opts.Now()
		err := l.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if failures++; err == nil || l.opts.Now().Sub(began) > time.Minute {
			failures = 1
		}
		if err != nil {
			l.opts.Logger.Debug("the images are no longer followed; listing them again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.after(failures)):
		}
	}
}

// followOnce lists the CD-ROMs and follows them until the watch ends.
func (l *Library) followOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	var list v1.ISCSICdromList
	if err := l.opts.Store.GetList(ctx, storePrefix, opts, &list); err != nil {
		return err
	}
	l.replace(list.Items)
	opts.ResourceVersion = list.ResourceVersion
	w, err := l.opts.Store.Watch(ctx, storePrefix, opts)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		cdrom, ok := event.Object.(*v1.ISCSICdrom)
		switch {
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		case !ok:
		case event.Type == watch.Deleted:
			l.remove(cdrom)
		default:
			l.put(cdrom)
		}
	}
	return nil
}

func refOf(cdrom *v1.ISCSICdrom) Ref { return Ref{Namespace: cdrom.Namespace, Name: cdrom.Name} }

// replace takes a whole list. Files of those that are missing from it are kept:
// the store may be another one by mistake.
func (l *Library) replace(list []v1.ISCSICdrom) {
	there := map[Ref]bool{}
	for i := range list {
		there[refOf(&list[i])] = true
		l.put(&list[i])
	}
	l.mu.Lock()
	first := !l.loaded
	l.loaded = true
	for ref, im := range l.shelf {
		if im.cdrom != nil && !there[ref] {
			l.forget(im)
		}
	}
	l.mu.Unlock()
	if first {
		l.strays(list)
	}
}

func (l *Library) put(cdrom *v1.ISCSICdrom) {
	ref := refOf(cdrom)
	l.mu.Lock()
	im := l.image(ref)
	another := im.cdrom != nil && im.cdrom.UID != cdrom.UID
	if another {
		l.forget(im)
	}
	// Servers with directories of their own may see an image in different states. Were
	// each to answer the other's status with its own, they would never come to rest.
	// A spec of another program's need not have another generation.
	told := im.cdrom != nil && im.cdrom.Generation == cdrom.Generation && im.cdrom.Status.Release == cdrom.Status.Release &&
		apiequality.Semantic.DeepEqual(im.cdrom.Spec, cdrom.Spec)
	im.cdrom = cdrom
	l.mu.Unlock()
	if another {
		l.opts.Deleted(ref)
	}
	if !told {
		l.queue.Add(ref)
	}
}

// remove takes a CD-ROM that was deleted off the shelf, and its files away.
func (l *Library) remove(cdrom *v1.ISCSICdrom) {
	ref := refOf(cdrom)
	l.mu.Lock()
	im := l.image(ref)
	d := doomed{uid: string(cdrom.UID)}
	if im.cdrom != nil && im.cdrom.UID == cdrom.UID {
		d.ends = l.forget(im)
	}
	im.doomed = append(im.doomed, d)
	l.mu.Unlock()
	l.opts.Deleted(ref)
	l.queue.Add(ref)
}

// forget leaves the place of a CD-ROM empty, and tells its transfers to end; they
// have ended with the channels. Disks that were given out keep the file. l.mu
// must be held.
func (l *Library) forget(im *image) (ends []<-chan struct{}) {
	im.cdrom, im.failure, im.seen, im.phase = nil, nil, identity{}, ""
	im.silent = false
	l.exchange(im, nil, nil)
	im.former.clear()
	if im.upload != nil {
		im.upload.cancel(errDeleted)
		ends = append(ends, im.upload.done)
	}
	if im.download != nil {
		im.download.cancel()
		ends = append(ends, im.download.done)
		im.download = nil
	}
	l.queue.Add(im.ref)
	return ends
}

var errDeleted = errors.New("the ISCSICdrom was deleted")

// exchange makes another volume, or set, the current one. Of an image of a stream
// the one before it is kept for a while. l.mu must be held.
func (l *Library) exchange(im *image, v *volume, s *set) {
	var old formerImage
	if im.current != v {
		old.volume = im.current
	}
	if im.set != s {
		old.files = im.set
	}
	im.current, im.set = v, s
	if old.volume == nil && old.files == nil {
		return
	}
	if im.cdrom != nil && im.cdrom.Spec.Stream != nil && (v != nil || s != nil) {
		old.until = l.opts.Now().Add(l.pace.linger)
		im.former.add(old)
		return
	}
	old.drop()
}

// poll looks again and again whether files have changed, or have appeared.
func (l *Library) poll(ctx context.Context) {
	if l.root == nil {
		return
	}
	ticker := time.NewTicker(l.pace.poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		type look struct {
			ref  Ref
			name string
			seen identity
		}
		var looks []look
		l.mu.Lock()
		for ref, im := range l.shelf {
			if im.cdrom != nil && im.cdrom.Spec.External == nil {
				looks = append(looks, look{ref, fileOf(im.cdrom), im.seen})
			}
		}
		l.mu.Unlock()
		for _, k := range looks {
			if statIdentity(l.root, k.name) != k.seen {
				l.queue.Add(k.ref)
			}
		}
	}
}

// statIdentity is the identity of a file, zero where there is none.
func statIdentity(root *os.Root, name string) identity {
	info, err := root.Stat(name)
	if err != nil {
		return identity{}
	}
	return identityOf(info)
}
