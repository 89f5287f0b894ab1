package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/store/encryption"
)

// state is what an update or a delete starts from.
type state struct {
	obj     runtime.Object
	meta    storage.ResponseMeta
	value   []byte
	expect  uint64
	expires time.Time
	stale   bool
	// current is true where the state is as new as the bucket.
	current bool
}

// StaleCodec is a Codec that reports whether the next update writes a value again
// although the object is the same.
type StaleCodec interface {
	Codec
	Stale(value []byte) bool
}

// Create stores an object that is not there yet. It expires after ttl seconds; 0
// means never.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	bucketKey, err := s.bucket.bucketKey(key, false)
	if err != nil {
		return err
	}
	if rev, err := s.bucket.versioner.ObjectResourceVersion(obj); err == nil && rev != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	w, err := s.bucket.encode(bucketKey, obj)
	if err != nil {
		return err
	}
	w.expires = expiry(ttl)
	for {
		if s.contents.mirror.get(bucketKey) != nil {
			if err := s.barrier(ctx); err != nil {
				return err
			}
			if s.contents.mirror.get(bucketKey) != nil {
				return storage.NewKeyExistsError(key, 0)
			}
		}
		rev, err := s.publish(ctx, w)
		if err == nil && out != nil {
			return s.bucket.decode(w.key, w.value, rev, out)
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

func expiry(ttl uint64) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ttl) * time.Second)
}

// GuaranteedUpdate stores what tryUpdate makes of the object, and calls it again
// after each conflict.
func (s *Store) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error {
	m, err := s.newModification(key, destination, ignoreNotFound)
	if err != nil {
		return err
	}
	return m.run(ctx, cachedExistingObject, func(st *state) (write, error) {
		if err := preconditions.Check(key, st.obj); err != nil {
			return write{}, err
		}
		obj, ttl, err := tryUpdate(st.obj, st.meta)
		if err != nil {
			return write{}, err
		}
		w, err := s.bucket.encode(m.key, obj)
		if err != nil {
			return write{}, err
		}
		w.expect, w.expires = st.expect, st.expires
		if ttl != nil {
			w.expires = expiry(*ttl)
		}
		return w, nil
	})
}

// Delete removes an object and returns what it was.
func (s *Store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, cachedExistingObject runtime.Object, _ storage.DeleteOptions) error {
	m, err := s.newModification(key, out, false)
	if err != nil {
		return err
	}
	return m.run(ctx, cachedExistingObject, func(st *state) (write, error) {
		if err := preconditions.Check(key, st.obj); err != nil {
			return write{}, err
		}
		return write{key: m.key, expect: st.expect}, validateDeletion(ctx, st.obj)
	})
}

// modification is an update or a delete under way.
type modification struct {
	store          *Store
	key            string // of the bucket
	out            runtime.Object
	ignoreNotFound bool
}

func (s *Store) newModification(key string, out runtime.Object, ignoreNotFound bool) (*modification, error) {
	bucketKey, err := s.bucket.bucketKey(key, false)
	if err != nil {
		return nil, err
	}
	return &modification{store: s, key: bucketKey, out: out, ignoreNotFound: ignoreNotFound}, nil
}

// run publishes the write that prepare makes of the object's state, and begins again
// with the new state after a conflict.
func (m *modification) run(ctx context.Context, cached runtime.Object, prepare func(*state) (write, error)) error {
	st, err := m.firstState(ctx, cached)
	for err == nil {
		w, refusal := prepare(st)
		unchanged := w.value != nil && !st.stale && bytes.Equal(w.value, st.value)
		switch {
		case refusal == nil && !unchanged:
			var rev uint64
			if rev, err = m.store.publish(ctx, w); err == nil {
				if w.value == nil {
					w.value = st.value
				}
				return m.store.bucket.decode(m.key, w.value, rev, m.out)
			}
			if !errors.Is(err, errConflict) {
				return err
			}
			st, err = m.settledState(ctx)
		// A refusal, and the finding that nothing changes, stand only if they are about
		// the current state.
		case !st.current:
			old := st.meta.ResourceVersion
			if st, err = m.currentState(ctx); err == nil && refusal != nil && st.meta.ResourceVersion == old {
				return refusal
			}
		case refusal != nil:
			return refusal
		default:
			return m.store.bucket.decode(m.key, st.value, st.meta.ResourceVersion, m.out)
		}
	}
	return err
}

// firstState begins with the cached object, if there is one, else with the mirror's:
// if that is old the write is a conflict, and is tried again.
func (m *modification) firstState(ctx context.Context, cached runtime.Object) (*state, error) {
	if cached != nil {
		return m.cachedState(cached)
	}
	if !m.store.Loaded() {
		return nil, m.store.connection.unavailable()
	}
	st, err := m.mirroredState(ctx)
	return m.orCurrent(ctx, st, err)
}

// cachedState takes the caller's word for what is stored.
func (m *modification) cachedState(obj runtime.Object) (*state, error) {
	rev, err := m.store.bucket.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return nil, fmt.Errorf("the cached object has no resource version: %w", err)
	}
	w, err := m.store.bucket.encode(m.key, obj)
	if err != nil {
		return nil, err
	}
	if err := m.store.bucket.versioner.UpdateObject(obj, rev); err != nil {
		return nil, err
	}
	st := &state{obj: obj, meta: storage.ResponseMeta{ResourceVersion: rev}, value: w.value, expect: rev}
	if e := m.store.contents.mirror.get(m.key); e != nil && e.Revision == rev {
		st.expires, st.stale = e.expires, e.stale
	}
	return st, nil
}

// orCurrent returns a state that may be old, or the current one in place of an error
// that may be about an old one. In an exclusive store nothing is old. In another, what
// the bucket's leader says may be old, since it may have been deposed.
func (m *modification) orCurrent(ctx context.Context, old *state, oldErr error) (*state, error) {
	if oldErr != nil && !m.store.bucket.opts.Exclusive {
		return m.currentState(ctx)
	}
	if oldErr != nil {
		return nil, oldErr
	}
	old.current = m.store.bucket.opts.Exclusive
	return old, nil
}

// settledState reads what made a write fail.
func (m *modification) settledState(ctx context.Context) (*state, error) {
	e, expect, err := m.store.settle(ctx, m.key)
	if err != nil {
		return nil, err
	}
	st, err := m.stateOf(e, expect)
	return m.orCurrent(ctx, st, err)
}

// currentState reads the mirror, as new as the bucket.
func (m *modification) currentState(ctx context.Context) (*state, error) {
	if err := m.store.barrier(ctx); err != nil {
		return nil, err
	}
	st, err := m.mirroredState(ctx)
	if err != nil {
		return nil, err
	}
	st.current = true
	return st, nil
}

func (m *modification) mirroredState(ctx context.Context) (*state, error) {
	e := m.store.contents.mirror.get(m.key)
	if err := holdValue(ctx, e); err != nil {
		return nil, err
	}
	if e == nil {
		return m.stateOf(nil, 0)
	}
	return m.stateOf(e, e.Revision)
}

// stateOf decodes an entry into a new object.
func (m *modification) stateOf(e *entry, expect uint64) (*state, error) {
	st := &state{obj: m.store.bucket.kind.New(), expect: expect}
	if e == nil {
		if !m.ignoreNotFound {
			return nil, storage.NewKeyNotFoundError(m.store.bucket.storageKey(m.key), 0)
		}
		return st, runtime.SetZeroValue(st.obj)
	}
	st.value, st.expires, st.stale = e.Value, e.expires, e.stale
	st.meta.ResourceVersion = e.Revision
	if codec, ok := m.store.bucket.kind.Codec.(StaleCodec); ok {
		st.stale = st.stale || codec.Stale(e.Value)
	}
	return st, m.store.bucket.decode(m.key, e.Value, e.Revision, st.obj)
}

// apply brings one change into the mirror and to the observers, then releases the
// callers that wait for it.
func (s *contents) apply(c change) {
	s.remember(c)
	s.own.observe(c)
	switch {
	case c.skip:
		s.mirror.observe(c.rev)
	case c.corrupt != nil:
		s.alarm(c)
		s.mirror.observe(c.rev)
	case c.put != nil:
		s.applyPut(c)
	default:
		s.metrics.healed(c.key)
		if s.mirror.remove(c.key, c.rev) != nil {
			s.observeDelete(c.key, c.rev)
		}
	}
	s.progress.reach(c.rev)
}

func (s *contents) applyPut(c change) {
	s.metrics.healed(c.key)
	// A key that was deleted and made again while the bucket was not followed has another
	// object: observers and watches of the first have to see its end.
	if !s.kind.Successive && isAnother(s.mirror.get(c.key), c.put) {
		s.mirror.remove(c.key, c.rev-1)
		s.observeDelete(c.key, c.rev-1)
	}
	s.mirror.put(c.put)
	s.expireLater(c.put)
	for _, o := range s.observers {
		o.Put(c.put.Item)
	}
}

// isAnother reports whether two entries of a key, each of which may be nil, are of different objects.
func isAnother(prev, put *entry) bool {
	return prev != nil && put != nil && prev.uid != put.uid && prev.uid != "" && put.uid != ""
}

func (s *contents) observeDelete(key string, rev uint64) {
	for _, o := range s.observers {
		o.Delete(key, rev)
	}
}

// reach moves on to a revision that the server has and will not send.
func (s *contents) reach(rev uint64) {
	s.mirror.observe(rev)
	s.progress.reach(rev)
}

// alarm reports a value that is not what was written.
func (s *contents) alarm(c change) {
	s.metrics.damaged(c.key)
	s.logDamaged(c)
}

func (s *contents) logDamaged(c change) {
	message := fmt.Sprintf("a stored object is damaged: %v. %s", c.corrupt, s.remedy())
	if errors.As(c.corrupt, new(*encryption.KeyError)) { // whose remedy is another one
		message = "a stored object cannot be read: " + c.corrupt.Error()
	}
	s.opts.Logger.Error(message, "object", s.kind.Resource+"/"+c.key, "revision", c.rev)
}

// count returns the number of objects.
func (s *contents) count() int64 {
	n, _ := s.mirror.stats()
	return n
}
