package kvstore

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

const (
	// watchBuffer is how many events wait for the client, decoded, as long as they
	// are small.
	watchBuffer = 16
	watchBatch  = 64
	// lastBookmark is how long before its deadline a watch gets one more bookmark.
	lastBookmark = 2 * time.Second

	watchExpired = "The resourceVersion for the provided watch is too old."
)

// Watch follows the objects below a key, or with opts.Recursive unset the object
// at the key, from a revision on. A revision that the window does not go back to,
// or that the bucket has not reached, is a 410 event: the client lists again.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	prefix, err := s.bucket.bucketKey(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	rev, err := s.bucket.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !s.connection.Loaded() {
		return nil, s.connection.unavailable()
	}
	w := &watcher{
		store:     s,
		key:       prefix,
		recursive: opts.Recursive,
		pred:      opts.Predicate,
		bookmarks: opts.Predicate.AllowWatchBookmarks || opts.ProgressNotify,
		result:    make(chan watch.Event, watchBuffer),
	}
	initial := rev == 0
	if opts.SendInitialEvents != nil {
		initial = *opts.SendInitialEvents
	}
	begin := func() (uint64, error) { return w.begin(rev, initial, opts) }
	if rev == 0 && !initial {
		// "From now on" begins before the caller goes on.
		if err := s.barrier(ctx); err != nil {
			return nil, err
		}
		next := s.contents.mirror.current().next
		begin = func() (uint64, error) { return next, nil }
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	go w.run(begin)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// watcher is one watch: a reader of the mirror's window at its own pace. No writer
// waits for it; if the window moves past it, it ends with 410.
type watcher struct {
	store     *Store
	key       string
	recursive bool
	pred      storage.SelectionPredicate
	bookmarks bool
	ctx       context.Context
	cancel    context.CancelFunc
	result    chan watch.Event
}

func (w *watcher) Stop()                          { w.cancel() }
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

func (w *watcher) run(begin func() (next uint64, err error)) {
	defer close(w.result)
	defer w.cancel()
	next, err := begin()
	if err == nil {
		err = w.follow(next)
	}
	if err != nil && w.ctx.Err() == nil {
		w.send(errorEvent(err))
	}
}

// begin sends the initial objects, if they are wanted, and returns the number of
// the first event to follow.
func (w *watcher) begin(rev uint64, initial bool, opts storage.ListOptions) (next uint64, err error) {
	if initial {
		if err := w.store.awaitRevision(w.ctx, opts.ResourceVersion); err != nil {
			return 0, err
		}
		return w.sendInitial(opts.SendInitialEvents != nil && opts.Predicate.AllowWatchBookmarks)
	}
	if err := w.store.awaitReached(w.ctx, rev); err != nil && !storage.IsTooLargeResourceVersion(err) {
		return 0, err
	}
	next, ok := w.store.contents.mirror.position(rev)
	if !ok {
		return 0, apierrors.NewResourceExpired(watchExpired)
	}
	return next, nil
}

// sendInitial sends every object as added and, if wanted, the bookmark that marks
// their end.
func (w *watcher) sendInitial(endBookmark bool) (next uint64, err error) {
	snap := w.store.contents.mirror.current()
	snap.tree.AscendGreaterOrEqual(&entry{Item: Item{Key: w.key}}, func(e *entry) bool {
		if !w.covers(e.Key) {
			return false
		}
		err = w.emit(&event{rev: e.Revision, put: e})
		return err == nil && w.ctx.Err() == nil
	})
	if err == nil && endBookmark {
		err = w.bookmark(snap.rev, true)
	}
	return snap.next, err
}

// covers reports whether a key is watched.
func (w *watcher) covers(key string) bool {
	if w.recursive {
		return strings.HasPrefix(key, w.key)
	}
	return key == w.key
}

// follow sends events until the watch ends.
func (w *watcher) follow(next uint64) error {
	timer := time.NewTimer(w.nextBookmark())
	defer timer.Stop()
	buf := make([]event, watchBatch)
	for {
		n, rev, changed, ok := w.store.contents.mirror.read(next, buf)
		if !ok {
			return apierrors.NewResourceExpired(watchExpired)
		}
		for i := range buf[:n] {
			if !w.covers(buf[i].key()) {
				continue
			}
			if err := w.emit(&buf[i]); err != nil || w.ctx.Err() != nil {
				return err
			}
		}
		clear(buf[:n]) // keep no values that the window gives up
		next += uint64(n)
		if n > 0 {
			continue
		}
		select {
		case <-w.ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
			if w.bookmarks {
				if err := w.bookmark(rev, false); err != nil {
					return err
				}
			}
			timer.Reset(w.nextBookmark())
		}
	}
}

// nextBookmark is the time to the next bookmark: the interval, or less before the
// deadline.
func (w *watcher) nextBookmark() time.Duration {
	interval := w.store.bucket.opts.BookmarkInterval
	deadline, ok := w.ctx.Deadline()
	if last := time.Until(deadline) - lastBookmark; ok && last > 0 {
		return min(interval, last)
	}
	return interval
}

func (w *watcher) bookmark(rev uint64, initialEventsEnd bool) error {
	obj := w.store.bucket.kind.New()
	if err := w.store.bucket.versioner.UpdateObject(obj, rev); err != nil {
		return err
	}
	if initialEventsEnd {
		if err := storage.AnnotateInitialEventsEndBookmark(obj); err != nil {
			return err
		}
	}
	w.send(watch.Event{Type: watch.Bookmark, Object: obj})
	return nil
}

// emit sends an event as this watch has to see it: an object that begins to match the
// selector is added, one that ceases to match is deleted. The successor of an object is
// added, whatever that was.
func (w *watcher) emit(e *event) error {
	matched := e.prev != nil && !isAnother(e.prev, e.put)
	needsOld := matched && (e.put == nil || !w.pred.Empty())
	if err := w.hold(e, needsOld); err != nil {
		return err
	}
	cur, err := w.decode(e.put, e.rev)
	if err != nil {
		return err
	}
	var old runtime.Object
	if needsOld {
		if old, err = w.decode(e.prev, e.rev); err != nil {
			return err
		}
		matched = w.selects(old)
	}
	matches := cur != nil && w.selects(cur)
	switch {
	case matches && matched:
		w.send(watch.Event{Type: watch.Modified, Object: cur})
	case matches:
		w.send(watch.Event{Type: watch.Added, Object: cur})
	case matched:
		w.send(watch.Event{Type: watch.Deleted, Object: old})
	}
	return nil
}

// decode returns the object of an entry, nil for no entry.
func (w *watcher) decode(e *entry, rev uint64) (runtime.Object, error) {
	if e == nil {
		return nil, nil
	}
	obj := w.store.bucket.kind.New()
	return obj, w.store.bucket.decode(e.Key, e.Value, rev, obj)
}

func (w *watcher) selects(obj runtime.Object) bool {
	if w.pred.Empty() {
		return true
	}
	ok, err := w.pred.Matches(obj)
	return err == nil && ok
}

// send sends an event to the client, unless the watch has ended.
func (w *watcher) send(e watch.Event) {
	select {
	case w.result <- e:
	case <-w.ctx.Done():
	}
}

func errorEvent(err error) watch.Event {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	object := status.Status()
	return watch.Event{Type: watch.Error, Object: &object}
}
