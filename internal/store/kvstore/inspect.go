package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/session"
)

// Inspect reads all that the bucket of a kind has, as it is stored. It calls each with the key of every object, and its
// value or why it cannot be used: its checksum, its encryption, a record that NATS lists and cannot read, or a key that
// is none of ours. unreadable are the records that NATS counts, beside those.
func Inspect(ctx context.Context, js jetstream.JetStream, kind Kind, opts Options,
	each func(key string, value []byte, problem error)) (unreadable uint64, err error) {
	b := newBucket(kind, opts)
	seen := map[string]bool{}
	unreadable, err = session.ReadAll(ctx, js, b.streamName, func(m session.Message) error {
		seen[m.Subject] = true
		if m.Subject == b.subjectPrefix+barrierKey {
			return nil
		}
		c, err := b.readChange(ctx, m.Subject, m.Header, m.Data, m.Sequence)
		switch {
		case errors.Is(err, errForeignKey):
			each(strings.TrimPrefix(m.Subject, b.subjectPrefix), nil, errors.New("its key is none that a server writes"))
		case err != nil:
			each(strings.TrimPrefix(m.Subject, b.subjectPrefix), nil, err)
		case c.corrupt != nil:
			each(c.key, nil, c.corrupt)
		case c.put != nil:
			each(c.key, c.put.Value, nil)
		}
		return nil
	})
	if err != nil || unreadable == 0 {
		return 0, err
	}
	stream, err := js.Stream(ctx, b.streamName)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.subjectPrefix+">"))
	if err != nil {
		return 0, fmt.Errorf("listing the keys of %s: %w", kind.Bucket, err)
	}
	for subject := range info.State.Subjects {
		if seen[subject] || unreadable == 0 {
			continue
		}
		key, err := decodeKey(strings.TrimPrefix(subject, b.subjectPrefix))
		if err != nil {
			continue
		}
		unreadable--
		each(key, nil, errors.New("NATS lists it and cannot read its record"))
	}
	return unreadable, nil
}
