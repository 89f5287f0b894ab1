package kvstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"glowplug/internal/store/encryption"
	"glowplug/internal/store/question"
)

// The metadata of a bucket's stream has a list of samples under samplesKey, separated by
// commas: for every key with which a value in the files may be encrypted a short text that is
// encrypted with it, in base64, or plainSample where values may not be encrypted. A sample is
// added before the first value is written with a key. The others are removed once every value
// was written again and the files with the former ones were removed. A bucket without samples
// has never had an encrypted value.
const (
	samplesKey  = "glowplug-encryption"
	plainSample = "plain"
	sampleText  = "glowplug"
)

// samplesOf reads the list.
func samplesOf(metadata map[string]string) []string {
	list := metadata[samplesKey]
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// CheckKeys returns a *encryption.KeyError if the bucket may have values that this server
// cannot decrypt, and other errors where that cannot be found out now. It changes nothing.
func (s *Store) CheckKeys(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := question.Ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx, s.bucket.streamName)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the bucket %s: %w", s.bucket.kind.Bucket, err)
	}
	return s.bucket.checkSamples(ctx, stream.CachedInfo().Config.Metadata)
}

// CheckKeys does the same for a kind whose bucket has a stream with the metadata, without a server.
func CheckKeys(ctx context.Context, kind Kind, cipher *encryption.Cipher, metadata map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return newBucket(kind, Options{Cipher: cipher}).checkSamples(ctx, metadata)
}

func (b *bucket) checkSamples(ctx context.Context, metadata map[string]string) error {
	for _, sample := range samplesOf(metadata) {
		if _, err := b.openSample(ctx, sample); err != nil {
			return err
		}
	}
	return nil
}

// openSample decrypts a sample, and returns whether new values are encrypted with its key.
func (b *bucket) openSample(ctx context.Context, sample string) (present bool, err error) {
	encrypted := []byte(sampleText)
	if sample != plainSample {
		if encrypted, err = base64.StdEncoding.DecodeString(sample); err != nil {
			return false, fmt.Errorf("the metadata %s of the stream %s cannot be read: %w", samplesKey, b.streamName,
				err)
		}
	}
	_, stale, err := b.opts.Cipher.Decrypt(ctx, b.prefix, encrypted)
	return !stale, err
}

// makeSample returns a sample of the key that values are encrypted with now.
func (b *bucket) makeSample(ctx context.Context) (string, error) {
	encrypted, err := b.opts.Cipher.Encrypt(ctx, b.prefix, []byte(sampleText))
	if err != nil {
		return "", err
	}
	if string(encrypted) == sampleText {
		return plainSample, nil
	}
	return base64.StdEncoding.EncodeToString(encrypted), nil
}

// adjustSamples makes sure that the bucket has a sample of the present key. It is called
// before a session writes.
func (f *follower) adjustSamples(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo) error {
	sample, err := f.store.bucket.makeSample(ctx)
	if err != nil {
		return err
	}
	samples := samplesOf(info.Config.Metadata)
	// Every bucket that holds anything but the padding of its first revision had plain values.
	if samples == nil && info.State.LastSeq >= firstSeq {
		samples = []string{plainSample}
	}
	known := samples == nil && sample == plainSample
	for _, s := range samples {
		present, err := f.store.bucket.openSample(ctx, s)
		if err != nil {
			return err
		}
		known = known || present
	}
	if known {
		f.formerKeys = len(samples) > 1
		return nil
	}
	f.formerKeys = len(samples) > 0
	return f.writeSamples(ctx, js, info, append(samples, sample))
}

// Rewrite writes values again that are stale: not encrypted as new values are, or upgraded. It stops after
// some time, and returns how many it has written and how many are left.
func (s *writer) Rewrite(ctx context.Context) (written, left int, err error) {
	if !s.connection.Loaded() {
		return 0, 0, s.connection.unavailable()
	}
	var stale []*entry
	s.contents.mirror.current().tree.Ascend(func(e *entry) bool {
		if e.stale {
			stale = append(stale, e)
		}
		return true
	})
	began := time.Now()
	for len(stale) > 0 && time.Since(began) < rewriteTime {
		var writers errgroup.Group
		batch := stale[:min(rewriteWriters, len(stale))]
		for _, e := range batch {
			writers.Go(func() error {
				if err := s.republish(ctx, e); err != nil && !errors.Is(err, errConflict) {
					return err
				}
				return nil // with a conflict somebody else has written it
			})
		}
		if err := cmp.Or(writers.Wait(), ctx.Err()); err != nil {
			return written, len(stale), err
		}
		written, stale = written+len(batch), stale[len(batch):]
	}
	return written, len(stale), nil
}

const (
	// rewriteTime is how long one call of Rewrite takes, so that its caller can tell of the progress.
	rewriteTime = time.Second
	// rewriteWriters is how many values are written at the same time.
	rewriteWriters = 16
)

// forgetFormerKeys is called once nothing of other keys than the present one is in the files.
func (f *cleaner) forgetFormerKeys(ctx context.Context, stream jetstream.Stream) error {
	if !f.follower.formerKeys || f.store.contents.mirror.staleEntries() > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sample, err := f.store.bucket.makeSample(ctx)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if err := f.follower.writeSamples(ctx, f.follower.js, info, []string{sample}); err != nil {
		return err
	}
	f.follower.formerKeys = false
	f.store.bucket.opts.Logger.Info("removed the files with values of former encryption keys")
	return nil
}

func (f *follower) writeSamples(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo,
	samples []string) error {
	cfg := info.Config
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[samplesKey] = strings.Join(samples, ",")
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("recording the key of the bucket: %w", err)
	}
	return nil
}
