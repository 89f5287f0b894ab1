package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
)

const (
	// firstSeq begins a bucket at revision 1 while it is empty, since the API
	// library refuses lists of revision 0.
	firstSeq = 2

	// longAge is more than any bucket lives.
	longAge = 100 * 365 * 24 * time.Hour

	// cleanedKey is the member of the stream's metadata with the revision up to
	// which the bucket was cleaned, see clean. Buckets of earlier releases, whose
	// tombstones expired, have none.
	cleanedKey = "glowplug-cleaned"
)

// openBucket finds the stream, or makes it where none ever was.
func (f *follower) openBucket(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, *jetstream.StreamInfo,
	error) {
	if err := f.askGuard(ctx, js); err != nil {
		return nil, nil, err
	}
	stream, err := f.findBucket(ctx, js)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := f.adjustBucket(ctx, js, stream); err != nil {
		return nil, nil, err
	}
	if f.opts.Ledger != nil {
		if err := f.opts.Ledger.Add(f.kind.Bucket); err != nil {
			return nil, nil, fmt.Errorf("recording the bucket: %w", err)
		}
	}
	info, err := question.Ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return stream.Info(ctx) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the bucket's state: %w", err)
	}
	if !replicas.Led(info) {
		return nil, nil, errNoLeader
	}
	return stream, info, nil
}

// askGuard asks whether the store may be used at all.
func (f *follower) askGuard(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reconnects := js.Conn().Stats().Reconnects
	if f.opts.Guard != nil {
		if err := f.opts.Guard(ctx, js); err != nil {
			f.link.Store(nil) // what it refuses is not written either
			return err
		}
	}
	f.guarded.Store(reconnects)
	return nil
}

// findBucket asks for the stream.
func (f *follower) findBucket(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	askCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := question.Ask(askCtx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx,
			f.streamName)
	})
	switch {
	case err == nil && !replicas.Led(stream.CachedInfo()):
		return nil, errNoLeader
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if f.Loaded() || !f.keys.Created().IsZero() || f.opts.Ledger != nil && f.opts.Ledger.Has(f.kind.Bucket) {
			return nil, f.bucketLost()
		}
		makeCtx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if stream, err = replicas.Create(makeCtx, js, f.streamConfig(), f.opts.Replicas); err != nil {
			return nil, fmt.Errorf("making the bucket: %w", err)
		}
		f.opts.Logger.Debug("made the bucket")
	case err != nil:
		return nil, fmt.Errorf("opening the bucket: %w", err)
	}
	return stream, nil
}

// streamConfig is what jetstream.CreateKeyValue would make, and differs in that
// reads never go to a replica that is behind. Nothing in it expires: the server
// takes an expired tombstone out of its memory and its index only, and the value
// that the tombstone hid is still in a block. After a kill -9 the index is made
// anew from the blocks, and the deleted object would be back.
func (b *bucket) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              b.streamName,
		Subjects:          []string{b.subjectPrefix + ">"},
		Storage:           jetstream.FileStorage,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Duplicates:        2 * time.Minute,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		AllowRollup:       true,
		DenyDelete:        true,
		FirstSeq:          firstSeq,
		Metadata:          map[string]string{cleanedKey: "0"},
	}
}

// adjustBucket brings a stream that others made, with "nats kv add" say, to what
// the store relies on.
func (b *bucket) adjustBucket(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream) error {
	cfg := stream.CachedInfo().Config
	if !slices.Equal(cfg.Subjects, []string{b.subjectPrefix + ">"}) {
		return fmt.Errorf("stream %s is no KV bucket: it has the subjects %q", b.streamName, cfg.Subjects)
	}
	// A short age is of a bucket that "nats kv add --ttl" has made; a long one, which
	// earlier releases gave, means for ever.
	expires := cfg.MaxAge > 0 && cfg.MaxAge < longAge
	if expires {
		cfg.MaxAge = 0
	}
	if cfg.AllowDirect || expires {
		cfg.AllowDirect = false
		if _, err := js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("adjusting the bucket: %w", err)
		}
	}
	if stream.CachedInfo().State.LastSeq == 0 {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(firstSeq)); err != nil {
			return fmt.Errorf("adjusting the bucket: %w", err)
		}
	}
	return nil
}

// LossLedger is a Ledger that knows why a bucket is missing.
type LossLedger interface {
	Ledger
	// Lost says why a bucket that was recorded is missing, with the remedy; nil if
	// nothing is known.
	Lost(bucket string) error
}

// bucketLost is the error of a bucket that held data and is missing.
func (b *bucket) bucketLost() error {
	if ledger, ok := b.opts.Ledger.(LossLedger); ok {
		if err := ledger.Lost(b.kind.Bucket); err != nil {
			return err
		}
	}
	return errBucketLost
}
