package kvstore

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter."
	inconsistentContinue = continueExpired + " Or use the continue token in this response to " +
		"retrieve the remainder of the results: objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// GetList reads the objects below a key, or with opts.Recursive unset the object
// at the key, as the bucket was at one revision.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	prefix, err := s.bucket.bucketKey(key, opts.Recursive)
	if err != nil {
		return err
	}
	itemsPtr, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(itemsPtr)
	if err != nil || items.Kind() != reflect.Slice {
		return fmt.Errorf("need ptr to slice: %w", err)
	}
	snap, start, err := s.listSnapshot(ctx, prefix, opts)
	if err != nil {
		return err
	}
	if opts.Recursive {
		if err := holdList(ctx, snap, prefix, start, opts); err != nil {
			return err
		}
	}
	l := lister{store: s, pred: opts.Predicate, items: items}
	if opts.Recursive {
		l.collect(ctx, snap, prefix, start)
	} else if e, ok := snap.tree.Get(&entry{Item: Item{Key: prefix}}); ok {
		if err := holdValue(ctx, e); err != nil {
			return err
		}
		l.add(ctx, e)
	}
	if l.err != nil {
		return l.err
	}
	token, remaining, err := storage.PrepareContinueToken(s.bucket.storageKey(l.lastKey), s.bucket.storageKey(prefix),
		int64(snap.rev), l.remaining, l.more, opts)
	if err != nil {
		return err
	}
	if items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	return s.bucket.versioner.UpdateList(listObj, snap.rev, token, remaining)
}

// listSnapshot finds the state from which a list is read, and the bucket key to begin
// with.
func (s *Store) listSnapshot(ctx context.Context, prefix string, opts storage.ListOptions) (snapshot, string, error) {
	if !s.connection.Loaded() {
		return snapshot{}, "", s.connection.unavailable()
	}
	exact, continueKey, err := storage.ValidateListOptions(s.bucket.storageKey(prefix), s.bucket.versioner, opts)
	if err != nil {
		return snapshot{}, "", err
	}
	start := prefix
	if continueKey != "" {
		start = strings.TrimPrefix(continueKey, s.bucket.prefix)
	}
	if exact == 0 {
		minimum := opts.ResourceVersion
		if continueKey != "" {
			minimum = "" // the rest of an inconsistent list, as new as can be
		}
		if err := s.awaitRevision(ctx, minimum); err != nil {
			return snapshot{}, "", err
		}
		return s.contents.mirror.current(), start, nil
	}
	if err := s.awaitReached(ctx, uint64(exact)); err != nil {
		return snapshot{}, "", err
	}
	snap, ok := s.contents.mirror.at(uint64(exact))
	if !ok {
		return snapshot{}, "", expiredList(continueKey, s.bucket.storageKey(prefix))
	}
	return snap, start, nil
}

// expiredList is the 410 of a revision before the window. A list that was begun
// may be completed at the newest revision: the token for that comes along.
func expiredList(continueKey, prefix string) error {
	if continueKey == "" {
		return apierrors.NewResourceExpired(listExpired)
	}
	token, err := storage.EncodeContinue(continueKey, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(continueExpired)
	}
	expired := apierrors.NewResourceExpired(inconsistentContinue)
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// lister collects the items of one list.
type lister struct {
	store *Store
	pred  storage.SelectionPredicate
	items reflect.Value
	err   error

	lastKey string
	// remaining counts the keys from where the list began to its end, if there
	// is a limit and no selector.
	remaining int64
	more      bool
}

func (l *lister) collect(ctx context.Context, snap snapshot, prefix, start string) {
	limit, unselected := l.pred.Limit, l.pred.Empty()
	if unselected {
		l.reserve(snap, prefix, limit)
	}
	snap.tree.AscendGreaterOrEqual(&entry{Item: Item{Key: start}}, func(e *entry) bool {
		if !strings.HasPrefix(e.Key, prefix) {
			return false
		}
		l.remaining++
		if limit > 0 && int64(l.items.Len()) >= limit {
			l.more = true
			return unselected // go on counting
		}
		l.lastKey = e.Key
		return l.add(ctx, e)
	})
}

// reserve makes room at once for what is sure to come.
func (l *lister) reserve(snap snapshot, prefix string, limit int64) {
	n := int64(snap.tree.Len())
	if prefix != "" {
		n = min(n, 64)
	}
	if limit > 0 {
		n = min(n, limit)
	}
	l.items.Set(reflect.MakeSlice(l.items.Type(), 0, int(n)))
}

// add appends an item that is selected. It returns false to end the list.
func (l *lister) add(ctx context.Context, e *entry) bool {
	if ctx.Err() != nil {
		l.err = storage.NewTimeoutError(l.store.bucket.storageKey(e.Key), "request did not complete within requested timeout")
		return false
	}
	obj := l.store.bucket.kind.New()
	if l.err = l.store.bucket.decode(e.Key, e.Value, e.Revision, obj); l.err != nil {
		return false
	}
	if ok, err := l.pred.Matches(obj); err == nil && ok {
		l.items.Set(reflect.Append(l.items, reflect.ValueOf(obj).Elem()))
	}
	return true
}
