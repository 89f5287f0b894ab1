package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// state is what an update or a delete starts from.
type state struct {
	obj     runtime.Object // nil if it could not be decoded, and that was expected
	meta    storage.ResponseMeta
	value   []byte
	expect  uint64
	expires time.Time
	stale   bool
}

// StaleCodec is a Codec that can tell that a value, though it can be read, is to
// be written again at the next update, even if the object is the same.
type StaleCodec interface {
	Codec
	Stale(value []byte) bool
}

// Create stores an object that is not there yet. It expires after ttl seconds; 0
// means never.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	bucketKey, err := s.bucketKey(key, false)
	if err != nil {
		return err
	}
	if rev, err := s.versioner.ObjectResourceVersion(obj); err == nil && rev != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	w, err := s.encode(bucketKey, obj)
	if err != nil {
		return err
	}
	w.expires = expiry(ttl)
	for {
		if err := s.refuseExisting(ctx, key, bucketKey); err != nil {
			return err
		}
		rev, err := s.publish(ctx, w)
		if err == nil {
			return s.answer(w.key, w.value, rev, out)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		// It is there now, or this is a tombstone's revision, or a damaged value's.
		if _, w.expect, err = s.settle(ctx, bucketKey); err != nil {
			return err
		}
	}
}

// refuseExisting returns an error if the object is there, or nobody knows.
func (s *Store) refuseExisting(ctx context.Context, key, bucketKey string) error {
	if s.mirror.get(bucketKey) == nil {
		return nil
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	if s.mirror.get(bucketKey) == nil {
		return nil
	}
	return storage.NewKeyExistsError(key, 0)
}

// answer returns the caller what was stored.
func (s *Store) answer(key string, value []byte, rev uint64, out runtime.Object) error {
	if out == nil {
		return nil
	}
	return s.decode(key, value, rev, out)
}

func expiry(ttl uint64) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ttl) * time.Second)
}

// currentState reads what the mirror has, as new as the bucket.
func (s *Store) currentState(ctx context.Context, key string, like reflect.Value, ignoreNotFound,
	unreadable bool) (*state, error) {
	if err := s.barrier(ctx); err != nil {
		return nil, err
	}
	return s.mirroredState(ctx, key, like, ignoreNotFound, unreadable)
}

// mirroredState reads what the mirror has.
func (s *Store) mirroredState(ctx context.Context, key string, like reflect.Value, ignoreNotFound,
	unreadable bool) (*state, error) {
	e := s.mirror.get(key)
	if err := holdValue(ctx, e); err != nil {
		return nil, err
	}
	expect := uint64(0)
	if e != nil {
		expect = e.Revision
	}
	return s.stateOf(key, e, expect, like, ignoreNotFound, unreadable)
}

// settledState reads what made a write fail. It is what the bucket's leader says,
// and a server that was deposed meanwhile may still take itself for that.
func (s *Store) settledState(
	ctx context.Context, key string, like reflect.Value, ignoreNotFound, unreadable bool, current func() (*state, error),
) (st *state, isCurrent bool, err error) {
	e, expect, err := s.settle(ctx, key)
	if err != nil {
		return nil, false, err
	}
	st, err = s.stateOf(key, e, expect, like, ignoreNotFound, unreadable)
	return s.orCurrent(st, err, current)
}

// orCurrent returns a state that may be old, or the current one in place of an error
// that may be about an old one. In an exclusive store nothing is old.
func (s *Store) orCurrent(old *state, oldErr error, current func() (*state, error)) (st *state, isCurrent bool,
	err error) {
	if oldErr == nil || s.opts.Exclusive {
		return old, s.opts.Exclusive, oldErr
	}
	st, err = current()
	return st, true, err
}

// stateOf decodes an entry into a new object like the caller's. unreadable turns
// the outcome around: an entry that can be decoded is then the error.
func (s *Store) stateOf(key string, e *entry, expect uint64, like reflect.Value, ignoreNotFound,
	unreadable bool) (*state, error) {
	st := &state{obj: newLike(like), expect: expect}
	if e == nil {
		if !ignoreNotFound {
			return nil, storage.NewKeyNotFoundError(s.storageKey(key), 0)
		}
		return st, runtime.SetZeroValue(st.obj)
	}
	st.value, st.expires = e.Value, e.expires
	st.meta.ResourceVersion = e.Revision
	if codec, ok := s.kind.Codec.(StaleCodec); ok {
		st.stale = codec.Stale(e.Value)
	}
	err := s.decode(key, e.Value, e.Revision, st.obj)
	switch {
	case err != nil && !unreadable:
		return nil, err
	case err != nil:
		st.obj = nil
	case unreadable:
		return nil, storage.NewInvalidObjError(s.storageKey(key),
			"unsafe deletion is not allowed because the object is decodable from storage")
	}
	return st, nil
}

func newLike(v reflect.Value) runtime.Object {
	if u, ok := v.Addr().Interface().(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(v.Type()).Interface().(runtime.Object)
}

// suggestedState takes the caller's word for what is stored.
func (s *Store) suggestedState(key string, obj runtime.Object) (*state, error) {
	rev, err := s.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return nil, fmt.Errorf("the cached object has no resource version: %w", err)
	}
	w, err := s.encode(key, obj)
	if err != nil {
		return nil, err
	}
	if err := s.versioner.UpdateObject(obj, rev); err != nil {
		return nil, err
	}
	st := &state{obj: obj, meta: storage.ResponseMeta{ResourceVersion: rev}, value: w.value, expect: rev}
	if e := s.mirror.get(key); e != nil && e.Revision == rev {
		st.expires = e.expires
	}
	return st, nil
}

// GuaranteedUpdate stores what tryUpdate makes of the object, and asks it again
// for as long as somebody else was faster.
func (s *Store) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error {
	bucketKey, err := s.bucketKey(key, false)
	if err != nil {
		return err
	}
	like, err := conversion.EnforcePtr(destination)
	if err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	current := func() (*state, error) { return s.currentState(ctx, bucketKey, like, ignoreNotFound, false) }
	mirrored := func() (*state, error) { return s.mirroredState(ctx, bucketKey, like, ignoreNotFound, false) }
	st, isCurrent, err := s.firstState(bucketKey, cachedExistingObject, mirrored, current)
	if err != nil {
		return err
	}
	for {
		w, err := s.tryUpdate(key, bucketKey, st, preconditions, tryUpdate)
		if err != nil || !st.stale && bytes.Equal(w.value, st.value) {
			// A refusal, and the finding that nothing changes, stand only if they
			// are about what is stored.
			if !isCurrent {
				suggested := st
				if st, err = refresh(err, suggested, current); err != nil {
					return err
				}
				isCurrent = true
				continue
			}
			if err != nil {
				return err
			}
			return s.decode(bucketKey, st.value, st.meta.ResourceVersion, destination)
		}
		rev, err := s.publish(ctx, w)
		if err == nil {
			return s.decode(bucketKey, w.value, rev, destination)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if st, isCurrent, err = s.settledState(ctx, bucketKey, like, ignoreNotFound, false, current); err != nil {
			return err
		}
	}
}

// firstState begins with the suggestion, if there is one, else with what the
// mirror has: if that is old the write is a conflict, and is tried again.
func (s *Store) firstState(key string, suggestion runtime.Object, mirrored, current func() (*state, error)) (st *state,
	isCurrent bool, err error) {
	if suggestion != nil {
		st, err = s.suggestedState(key, suggestion)
		return st, false, err
	}
	if !s.Loaded() {
		return nil, false, s.unavailable()
	}
	st, err = mirrored()
	return s.orCurrent(st, err, current)
}

// refresh reads the current state in place of a suggested one. If they are the
// same, what was found about the suggestion, cause, stands.
func refresh(cause error, suggested *state, current func() (*state, error)) (*state, error) {
	st, err := current()
	if err != nil {
		return nil, err
	}
	if cause != nil && st.meta.ResourceVersion == suggested.meta.ResourceVersion {
		return nil, cause
	}
	return st, nil
}

// tryUpdate asks the caller for the object to store, and encodes it.
func (s *Store) tryUpdate(key, bucketKey string, st *state, preconditions *storage.Preconditions,
	update storage.UpdateFunc) (write, error) {
	if err := preconditions.Check(key, st.obj); err != nil {
		return write{}, err
	}
	obj, ttl, err := update(st.obj, st.meta)
	if err != nil {
		return write{}, err
	}
	w, err := s.encode(bucketKey, obj)
	if err != nil {
		return write{}, err
	}
	w.expect, w.expires = st.expect, st.expires
	if ttl != nil {
		w.expires = expiry(*ttl)
	}
	return w, nil
}

// Delete removes an object and gives back what it was.
func (s *Store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, cachedExistingObject runtime.Object, opts storage.DeleteOptions) error {
	bucketKey, err := s.bucketKey(key, false)
	if err != nil {
		return err
	}
	like, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	unreadable := opts.ExpectTransformOrDecodeError &&
		utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unreadable {
		cachedExistingObject = nil
	}
	current := func() (*state, error) { return s.currentState(ctx, bucketKey, like, false, unreadable) }
	mirrored := func() (*state, error) { return s.mirroredState(ctx, bucketKey, like, false, unreadable) }
	st, isCurrent, err := s.firstState(bucketKey, cachedExistingObject, mirrored, current)
	if err != nil {
		return err
	}
	for {
		if err := checkDeletion(ctx, key, st, preconditions, validateDeletion); err != nil {
			if isCurrent {
				return err
			}
			if st, err = refresh(err, st, current); err != nil {
				return err
			}
			isCurrent = true
			continue
		}
		rev, err := s.publish(ctx, write{key: bucketKey, expect: st.expect})
		if err == nil {
			if unreadable {
				return nil
			}
			return s.decode(bucketKey, st.value, rev, out)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if st, isCurrent, err = s.settledState(ctx, bucketKey, like, false, unreadable, current); err != nil {
			return err
		}
	}
}

func checkDeletion(ctx context.Context, key string, st *state, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc) error {
	if preconditions != nil {
		if err := preconditions.Check(key, st.obj); err != nil {
			return err
		}
	}
	return validate(ctx, st.obj)
}
