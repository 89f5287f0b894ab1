package kvstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errConflict says that a key's last revision is not the expected one.
var errConflict = errors.New("the key has changed")

var retryDetails = &metav1.StatusDetails{RetryAfterSeconds: 1}

// write is one compare-and-set on a key.
type write struct {
	key string
	// expect is the revision of the key's last message, be it a value or a
	// tombstone; 0 if it has none.
	expect  uint64
	value   []byte // nil deletes
	uid     string
	expires time.Time
}

// change is what the write does at its revision.
func (w write) change(rev uint64) change {
	c := change{key: w.key, rev: rev}
	if w.value != nil {
		c.put = &entry{Item: Item{Key: w.key, Revision: rev, Value: w.value}, uid: w.uid, expires: w.expires}
	}
	return c
}

// publish does a write and returns its revision once the mirror and the
// observers have it. errConflict means that nothing was written; a 503 that
// nothing was begun; a 507 that the disk is full; a 504 that it may or may not
// have been written.
func (s *writer) publish(ctx context.Context, w write) (rev uint64, err error) {
	if !s.connection.Loaded() {
		return 0, s.connection.unavailable()
	}
	l, ok := s.connection.connected()
	if !ok {
		return 0, s.connection.unavailable()
	}
	if err := s.bucket.opts.Writable(); err != nil {
		return 0, s.connection.unwritable(err)
	}
	began := time.Now()
	defer func() { s.contents.metrics.wrote(time.Since(began), err) }()
	// A caller that goes away does not stop its write: without the outcome the whole
	// mirror would have to be read again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if w.value == nil {
		err = s.makeRoom(ctx, l, func() (err error) { rev, err = s.send(ctx, l, w); return err })
	} else {
		rev, err = s.send(ctx, l, w)
	}
	if err != nil {
		return 0, err
	}
	if s.bucket.opts.Exclusive {
		s.contents.acked(w.change(rev))
	}
	if !s.contents.progress.await(ctx, rev) {
		return 0, s.connection.timeout("reading back a write")
	}
	return rev, nil
}

func (s *writer) send(ctx context.Context, l *link, w write) (rev uint64, err error) {
	if w.value != nil && s.bucket.opts.Room != nil {
		if err := s.bucket.opts.Room(len(w.value)); err != nil {
			return 0, insufficientStorage(err)
		}
	}
	msg, id, err := s.bucket.message(ctx, w)
	if err != nil {
		return 0, err
	}
	own := s.contents.own.add(w, id, l.js.Conn().Stats().Reconnects)
	defer s.contents.own.remove(own)
	publishCtx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	reached := s.contents.mirror.revision()
	ack, err := l.js.PublishMsg(publishCtx, msg, jetstream.WithRetryAttempts(0))
	switch {
	case err == nil && ack.Sequence > reached:
		return ack.Sequence, nil
	case err == nil: // by another bucket, or an older one, in the place of ours
		s.doubt()
		return 0, s.connection.timeout("writing")
	}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return s.conflict(ctx, l, own, api)
	case isFull(err):
		return 0, insufficientStorage(
			fmt.Errorf("NATS has no room for a write of %s (%s): delete objects, or raise its JetStream limits (max_file, "+
				"max_bytes)",
				s.bucket.kind.Resource, api.Description))
	case errors.As(err, &api):
		refused := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s refused a write: %s", s.bucket.kind.Resource,
			api.Description))
		refused.ErrStatus.Details = retryDetails
		return 0, refused
	case errors.Is(err, nats.ErrMaxPayload):
		return 0, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("the object is %d bytes; the NATS server takes messages of at most %d (max_payload)",
				len(msg.Data), l.js.Conn().MaxPayload()))
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return 0, s.connection.unavailable()
	}
	return s.confirm(ctx, l, own)
}

// makeRoom does a write, again and again while NATS has no room for it and some can
// be given up.
func (s *writer) makeRoom(ctx context.Context, l *link, write func() error) error {
	err := write()
	for attempt := 0; isFull(err) && s.bucket.opts.Release != nil && s.bucket.opts.Release(ctx, l.js, attempt); attempt++ {
		err = write()
	}
	return err
}

// noRoom reports whether the server refused a write for want of room: a quota of the
// account or the server, or the bound of the stream.
func noRoom(api *jetstream.APIError) bool {
	switch api.ErrorCode {
	case 10002, 10023, 10047: // the account's limits, the server's, its storage
		return true
	case 10077: // the stream's store, whatever the reason
		return strings.Contains(api.Description, "maximum bytes") || strings.Contains(api.Description, "no space left")
	}
	return false
}

// isFull reports whether an error says that a write was refused for want of room.
func isFull(err error) bool {
	var api *jetstream.APIError
	var status *apierrors.StatusError
	return errors.As(err, &api) && noRoom(api) ||
		errors.As(err, &status) && status.ErrStatus.Code == http.StatusInsufficientStorage
}

// insufficientStorage is the 507 of a write that there is no room for.
func insufficientStorage(cause error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage,
		Reason: "InsufficientStorage", Message: cause.Error(),
	}}
}

// lastMessage reads a key's last message from the stream's leader. Its revision
// is 0 if there is none.
func (s *writer) lastMessage(ctx context.Context, l *link, key string) (change, error) {
	subject, err := s.bucket.subject(key)
	if err != nil {
		return change{}, err
	}
	raw, err := l.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return change{key: key}, nil
	}
	if err != nil {
		return change{}, err
	}
	return s.bucket.readChange(ctx, raw.Subject, raw.Header, raw.Data, raw.Sequence)
}

// sequencer feeds the mirror of an exclusive store from its own
// acknowledgements. A consumer would tell the same a little later, and would
// compete with every write for the stream's lock, which is held over an fsync.
//
// Acknowledgements come in any order and are applied in the order of revisions.
// A revision that is never acknowledged, because its write timed out, stops the
// sequence: the session then ends and the next one reads what was missed.
type sequencer struct {
	mu      sync.Mutex
	live    bool
	next    uint64
	pending map[uint64]change
}

// acked takes a write of ours that is in the bucket.
func (s *contents) acked(c change) {
	q := &s.sequencer
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[uint64]change{}
	}
	q.pending[c.rev] = c
	if q.live {
		s.applyPending()
	}
}

// goLive begins to apply acknowledgements, after the revision that the mirror
// has reached by other means. The caller then must not apply anything itself.
func (s *contents) goLive() {
	q := &s.sequencer
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = s.mirror.revision() + 1
	for rev := range q.pending {
		if rev < q.next {
			delete(q.pending, rev)
		}
	}
	q.live = true
	s.applyPending()
}

// endLive only gathers acknowledgements from here on.
func (s *contents) endLive() {
	s.sequencer.mu.Lock()
	defer s.sequencer.mu.Unlock()
	s.sequencer.live = false
}

func (s *contents) applyPending() {
	q := &s.sequencer
	for {
		c, ok := q.pending[q.next]
		if !ok {
			return
		}
		delete(q.pending, q.next)
		q.next++
		s.apply(c)
	}
}
