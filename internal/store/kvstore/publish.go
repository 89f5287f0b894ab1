package kvstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/store/batch"
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

// overhead is what a message has beside its value, in bytes; Room knows of one.
const overhead = 512

// bytesOf is the size of the values of writes.
func bytesOf(ws []write) (n int) {
	for _, w := range ws {
		n += len(w.value)
	}
	return n
}

// publish does writes of different keys, all of them or none, and returns the revision of the last one once
// the mirror and the observers have them; those of the others come right before it. errConflict means that
// nothing was written; a 503 that nothing was begun; a 507 that the disk is full; a 504 that all of it may or
// may not have been written.
func (s *writer) publish(ctx context.Context, ws ...write) (rev uint64, err error) {
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
	if bytesOf(ws) == 0 {
		err = s.bucket.makeRoom(ctx, l, func() (err error) { rev, err = s.send(ctx, l, ws); return err })
	} else {
		rev, err = s.send(ctx, l, ws)
	}
	if err != nil {
		return 0, err
	}
	for i, w := range ws {
		if s.bucket.opts.Exclusive {
			s.contents.acked(w.change(rev - uint64(len(ws)-1-i)))
		}
	}
	if !s.contents.progress.await(ctx, rev) {
		return 0, s.connection.timeout("reading back a write")
	}
	return rev, nil
}

func (s *writer) send(ctx context.Context, l *link, ws []write) (rev uint64, err error) {
	if bytes := bytesOf(ws); bytes > 0 && s.bucket.opts.Room != nil {
		// A server alone that comes to a limit within a batch stores what is before that, and does not answer.
		if err := s.bucket.opts.Room(bytes + (len(ws)-1)*overhead); err != nil {
			return 0, insufficientStorage(err)
		}
	}
	msgs, id, err := s.bucket.messages(ctx, ws)
	if err != nil {
		return 0, err
	}
	own := s.contents.own.add(ws, id, l.js.Conn().Stats().Reconnects)
	defer s.contents.own.remove(own)
	publishCtx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	reached := s.contents.mirror.revision()
	sequences, err := batch.Publish(publishCtx, l.js, msgs)
	switch {
	case err == nil && sequences[len(ws)-1] >= reached+uint64(len(ws)):
		return sequences[len(ws)-1], nil
	case err == nil: // by another bucket, or an older one, in the place of ours
		s.doubt()
		return 0, s.connection.timeout("writing")
	case errors.Is(err, nats.ErrMaxPayload):
		return 0, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("the object is %d bytes; the NATS server takes messages of at most %d (max_payload)",
				largest(msgs), l.js.Conn().MaxPayload()))
	}
	return s.outcome(ctx, l, own, err)
}

// largest is the size of the largest value of messages.
func largest(msgs []*nats.Msg) (bytes int) {
	for _, msg := range msgs {
		bytes = max(bytes, len(msg.Data))
	}
	return bytes
}

// outcome decides about a write that was not acknowledged.
func (s *writer) outcome(ctx context.Context, l *link, own *ownWrite, err error) (rev uint64, _ error) {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && batch.IsConflict(err):
		return s.refused(ctx, l, own, api, errConflict)
	case isFull(err):
		return 0, insufficientStorage(
			fmt.Errorf("NATS has no room for a write of %s (%s): delete objects, or raise its JetStream limits (max_file, "+
				"max_bytes)",
				s.bucket.kind.Resource, api.Description))
	case errors.As(err, &api):
		refused := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s refused a write: %s", s.bucket.kind.Resource,
			api.Description))
		refused.ErrStatus.Details = retryDetails
		return s.refused(ctx, l, own, api, refused)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return 0, s.connection.unavailable()
	}
	return s.confirm(ctx, l, own)
}

// makeRoom does a write, again and again while NATS has no room for it and some can
// be given up.
func (b *bucket) makeRoom(ctx context.Context, l *link, write func() error) error {
	err := write()
	for attempt := 0; isFull(err) && b.opts.Release != nil && b.opts.Release(ctx, l.js, attempt); attempt++ {
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
