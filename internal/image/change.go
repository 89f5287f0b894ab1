package image

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "glowplug/api/v1"
)

// ErrChanging is the error of a read while it is not known whether a file that was
// touched has the same content still: the same read may succeed later.
var ErrChanging = errors.New("its file has changed and is being read again")

// ErrOverwritten is the error of all reads of an image after its file was written to.
var ErrOverwritten = errors.New("its file was overwritten while it was in use")

// check fails where the file of a volume is not in the state that it was opened in,
// and lets it be read again. One that another has taken the place of, as by a rename,
// is as good as ever.
func (l *Library) check(im *image, v *volume) error {
	if v.spoiled.Load() {
		return ErrOverwritten
	}
	same, err := unchanged(v.file, *v.id.Load())
	if same && !v.doubted.Load() {
		return nil
	}
	if !v.doubted.Swap(true) {
		l.mu.Lock()
		if l.shelf[im.ref] != im || v.hold() != nil {
			v.spoiled.Store(true) // there is nobody left who would read it again
		} else {
			im.doubted = append(im.doubted, v)
		}
		l.mu.Unlock()
		l.queue.Add(im.ref)
	}
	if err != nil {
		return err
	}
	return ErrChanging
}

// verify reads again what is doubted, and tells when to do so once more; 0: never.
func (l *Library) verify(ctx context.Context, im *image, cdrom *v1.ISCSICdrom) (again time.Duration) {
	l.mu.Lock()
	doubted := slices.Clone(im.doubted)
	l.mu.Unlock()
	for _, v := range doubted {
		if !l.settle(ctx, v) {
			again = max(l.pace.settle, retryFirst)
			continue
		}
		l.mu.Lock()
		im.doubted = slices.DeleteFunc(im.doubted, func(each *volume) bool { return each == v })
		l.mu.Unlock()
		if v.spoiled.Load() {
			l.recordOverwritten(im, cdrom)
		}
		_ = v.drop()
	}
	return again
}

// settle finds out whether the file of a volume still has the content that it had. It
// reports whether that could be told: not while the file is written to.
func (l *Library) settle(ctx context.Context, v *volume) bool {
	info, err := v.file.Stat()
	if err != nil || info.Size() != v.id.Load().Size {
		v.spoiled.Store(true)
		return true
	}
	if age := l.opts.Now().Sub(info.ModTime()); age >= 0 && age < l.pace.settle {
		return false
	}
	id := identityOf(info)
	sum, err := l.digests.of(ctx, v.file, id)
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		if same, err := unchanged(v.file, id); !same && err == nil {
			return false
		}
		l.digests.remember(id, sum)
	}
	if err != nil || sum != v.sha256 {
		v.spoiled.Store(true)
		return true
	}
	v.id.Store(&id)
	v.doubted.Store(false)
	return true
}

// recordOverwritten tells the operator what machines have met with.
func (l *Library) recordOverwritten(im *image, cdrom *v1.ISCSICdrom) {
	const message = "its file was overwritten while machines were reading it: their reads fail until they boot again; " +
		"write a new image to another file and rename it"
	l.opts.Logger.Warn(message, "image", im.ref.String())
	if l.opts.Recorder != nil && cdrom != nil {
		l.opts.Recorder.Record(objectOf(cdrom), v1.EventWarning, "ImageOverwritten", message)
	}
}
