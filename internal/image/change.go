package image

import (
	"context"
	"errors"
	"time"
)

// ErrChanging is the error of a read while it is not known whether a file that was
// touched has the same content still: the same read may succeed later.
var ErrChanging = errors.New("its file has changed and is being read again")

// ErrOverwritten is the error of all reads of an image after its file was written to.
var ErrOverwritten = errors.New("its file was overwritten while it was in use")

// check fails where the file of a volume is not in the state that it was opened in,
// and lets it be read again. One that another has taken the place of, as by a rename,
// is as good as ever.
func (l *Library) check(im *served, v *Volume) error {
	if v.spoiled.Load() {
		return ErrOverwritten
	}
	same, err := unchanged(v.file, *v.id.Load())
	if same && !v.doubted.Load() {
		return nil
	}
	if !v.doubted.Swap(true) {
		l.mu.Lock()
		l.doubtLocked(im, v)
		l.mu.Unlock()
		l.changed(im.ref, 0)
	}
	if err != nil {
		return err
	}
	return ErrChanging
}

// Verify reads again the files of a CD-ROM that have changed under their readers. It
// returns the number of those that were overwritten, and when to call it again; 0: never.
func (l *Library) Verify(ctx context.Context, ref Ref) (overwritten int, again time.Duration) {
	for _, v := range l.doubted(ref) {
		if !l.verify(ctx, v) {
			again = max(l.opts.Settle, minVerify)
			continue
		}
		if v.spoiled.Load() {
			overwritten++
		}
		l.trusted(ref, v)
	}
	return overwritten, again
}

// minVerify is the least time between two tries to verify a file.
const minVerify = 200 * time.Millisecond

// verify finds out whether the file of a volume still has the content that it had. It
// reports false while that cannot be known, since the file is being written.
func (l *Library) verify(ctx context.Context, v *Volume) bool {
	info, err := v.file.Stat()
	if err != nil || info.Size() != v.id.Load().Size {
		v.spoiled.Store(true)
		return true
	}
	if age := l.opts.Now().Sub(info.ModTime()); age >= 0 && age < l.opts.Settle {
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
	if err != nil || sum != v.SHA256 {
		v.spoiled.Store(true)
		return true
	}
	v.id.Store(&id)
	v.doubted.Store(false)
	return true
}
