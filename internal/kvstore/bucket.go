package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// tombstoneTTL is how long the marker of a deleted key stays. A session that
	// was away for longer than half of that must not resume: it would miss deletes.
	tombstoneTTL = time.Hour

	// maxAge is for ever. With per-message TTLs allowed, and neither an age nor a
	// message with a TTL at hand, the server looks for expired messages after
	// every write, under the lock that the next write needs: a tenth of the
	// throughput.
	maxAge = 200 * 365 * 24 * time.Hour

	// firstSeq begins a bucket at revision 1 while it is empty, since the API
	// library refuses lists of revision 0.
	firstSeq = 2
)

// errBucketLost says that a bucket is missing that held data.
var errBucketLost = errors.New("the bucket existed and is missing: restore it from a backup, or make an empty one by hand")

// streamConfig is what jetstream.CreateKeyValue would make, and differs in that
// reads never go to a replica that is behind, and in that tombstones expire.
func (s *Store) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              s.streamName,
		Subjects:          []string{s.subjectPrefix + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          s.opts.Replicas,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Duplicates:        2 * time.Minute,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		MaxAge:            maxAge,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowMsgTTL:       true,
		FirstSeq:          firstSeq,
	}
}

// openBucket finds the stream, or makes it where none ever was.
func (s *Store) openBucket(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, *jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, s.streamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if s.Loaded() || s.opts.Ledger != nil && s.opts.Ledger.Has(s.kind.Bucket) {
			return nil, nil, errBucketLost
		}
		if stream, err = js.CreateStream(ctx, s.streamConfig()); err != nil {
			return nil, nil, fmt.Errorf("making the bucket: %w", err)
		}
		s.opts.Logger.Debug("made the bucket")
	case err != nil:
		return nil, nil, fmt.Errorf("opening the bucket: %w", err)
	default:
		if err := s.adjustBucket(ctx, js, stream); err != nil {
			return nil, nil, err
		}
	}
	if s.opts.Ledger != nil {
		if err := s.opts.Ledger.Add(s.kind.Bucket); err != nil {
			return nil, nil, fmt.Errorf("recording the bucket: %w", err)
		}
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the bucket's state: %w", err)
	}
	return stream, info, nil
}

// adjustBucket brings a stream that others made, with "nats kv add" say, to what
// the store relies on.
func (s *Store) adjustBucket(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream) error {
	cfg := stream.CachedInfo().Config
	if !slices.Equal(cfg.Subjects, []string{s.subjectPrefix + ">"}) {
		return fmt.Errorf("stream %s is no KV bucket: it has the subjects %q", s.streamName, cfg.Subjects)
	}
	if !cfg.AllowMsgTTL || cfg.AllowDirect {
		cfg.AllowMsgTTL, cfg.AllowDirect = true, false
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
