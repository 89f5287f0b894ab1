package kvstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"glowplug/internal/store/batch"
	"glowplug/internal/store/replicas"
)

const (
	// fillMessages and fillBytes bound what is sent at a time while a bucket is filled.
	fillMessages = 512
	fillBytes    = 16 << 20
)

// Filler fills a new bucket.
type Filler struct {
	js     jetstream.JetStream
	bucket *bucket
	id     string // of the write
	msgs   []*nats.Msg
	bytes  int
	stored int
}

// Fill makes the bucket of a kind, whose revisions begin after one, for records that are encrypted as opts say. The
// bucket must not exist.
func Fill(ctx context.Context, js jetstream.JetStream, kind Kind, opts Options, after uint64) (*Filler, error) {
	b := newBucket(kind, opts)
	config := b.streamConfig()
	config.FirstSeq = max(after+1, firstSeq)
	switch _, err := js.Stream(ctx, b.streamName); {
	case err == nil:
		return nil, fmt.Errorf("the bucket %s exists already", kind.Bucket)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("looking for the bucket %s: %w", kind.Bucket, err)
	}
	if _, err := replicas.Create(ctx, js, config, b.opts.Replicas); err != nil {
		return nil, fmt.Errorf("making the bucket %s: %w", kind.Bucket, err)
	}
	return &Filler{js: js, bucket: b, id: nuid.Next()}, nil
}

// Add writes a record, which is stored once Close has returned.
func (f *Filler) Add(ctx context.Context, r Record) error {
	w := write{key: r.Key, value: r.Value, uid: r.UID, expires: r.Expires}
	msg, err := f.bucket.message(ctx, w, f.id)
	if err != nil {
		return err
	}
	f.msgs, f.bytes = append(f.msgs, msg), f.bytes+len(msg.Data)
	if len(f.msgs) < fillMessages && f.bytes < fillBytes {
		return nil
	}
	return f.flush(ctx)
}

// fillTimeout bounds the time in which some records are stored: NATS answers nothing where its disk is full.
var fillTimeout = 2 * time.Minute

var errNotStored = errors.New("NATS does not say that they are stored: is its disk full?")

func (f *Filler) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fillTimeout, errNotStored)
	defer cancel()
	if _, err := batch.PublishEach(ctx, f.js, f.msgs); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("writing into the bucket %s: %w", f.bucket.kind.Bucket, err)
	}
	f.stored += len(f.msgs)
	f.msgs, f.bytes = f.msgs[:0], 0
	return nil
}

// Close stores what is left, and compares the bucket with the number of records.
func (f *Filler) Close(ctx context.Context) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	stream, err := f.js.Stream(ctx, f.bucket.streamName)
	if err != nil {
		return fmt.Errorf("reading the state of the bucket %s: %w", f.bucket.kind.Bucket, err)
	}
	if has := stream.CachedInfo().State.Msgs; has != uint64(f.stored) {
		return fmt.Errorf("the bucket %s has %d of the %d objects that were written", f.bucket.kind.Bucket, has, f.stored)
	}
	return nil
}

// Has reports whether the bucket has an object under a bucket key.
func Has(ctx context.Context, s *Store, key string) (bool, error) {
	err := s.barrier(ctx)
	return s.contents.mirror.get(key) != nil, err
}

// PutRecord stores a record, whatever its key has now.
func PutRecord(ctx context.Context, s *Store, r Record) error {
	l, ok := s.connection.connected()
	if !ok {
		return s.connection.unavailable()
	}
	last, err := s.lastMessage(ctx, l, r.Key)
	if err != nil {
		return err
	}
	_, err = s.publish(ctx, write{key: r.Key, value: r.Value, uid: r.UID, expires: r.Expires, expect: last.rev})
	return err
}
