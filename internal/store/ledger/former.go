package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Former is what the files of a data directory say of a bucket, beside its record.
type Former struct {
	// Created is when the bucket was made; zero: nothing is known.
	Created time.Time
	// Revision is the last one that the server has seen.
	Revision uint64
	// Floor is up to where messages were removed on purpose.
	Floor uint64
	// Objects are the keys that had a value, and Deleted those that were deleted, each with its revision.
	Objects, Deleted map[string]uint64
}

// compareFormer adds the comparisons to a survey that a server makes when it starts. It reports
// a bucket that was deleted and created again, a bucket with a lower revision than this server
// has seen, and lost objects.
func (k *Keeper) compareFormer(ctx context.Context, js jetstream.JetStream, s *Survey,
	entries map[string]map[string]lastMessage) error {
	if k.opts.Former == nil || s.Expected != "" && s.Found != "" && s.Expected != s.Found {
		return nil // the files are of another store
	}
	var reasons []string
	for i := range s.Buckets {
		b := &s.Buckets[i]
		f := k.opts.Former(b.Name)
		if f.Created.IsZero() {
			continue
		}
		b.Reached = max(b.Reached, f.Revision)
		b.lose(f, entries[b.Name])
		if !b.Exists {
			continue // that is a Mismatch, or the bucket was set aside
		}
		cut, err := isCut(ctx, js, b, f)
		switch {
		case err != nil:
			return fmt.Errorf("reading the newest message of %s: %w", b.Name, err)
		case k.ledger.place == External && !f.Created.Equal(s.seen.buckets[b.Name].created):
			reasons = append(reasons, b.Name+" was deleted and made anew by somebody else")
		case b.Revision < f.Revision:
			reasons = append(reasons, fmt.Sprintf("%s is at revision %d, and this server has seen %d", b.Name, b.Revision,
				f.Revision))
		case cut:
			reasons = append(reasons, "the newest messages of "+b.Name+" cannot be read")
		}
	}
	if s.Mismatch == nil && len(reasons) > 0 {
		s.Mismatch = &Mismatch{
			Reason: "the store is not the one that this server has seen: " + strings.Join(reasons, "; "),
			Remedy: "restore what is newer, if there is such a backup" + remedyAdopt,
		}
		s.Kept = false
	}
	return nil
}

// lose lists the objects that were known and are missing, have an older value, or are back after they were deleted.
func (b *SurveyedBucket) lose(f Former, has map[string]lastMessage) {
	for key, revision := range f.Objects {
		switch e, ok := has[key]; {
		case !ok || e.deleted && e.revision < revision:
			b.Lost = append(b.Lost, key)
		case e.revision < revision:
			b.Older = append(b.Older, key)
		}
	}
	for key, revision := range f.Deleted {
		if e, ok := has[key]; ok && !e.deleted && e.revision < revision {
			b.Back = append(b.Back, key)
		}
	}
	slices.Sort(b.Back)
	slices.Sort(b.Older)
	slices.Sort(b.Lost)
	b.Lost = slices.Compact(b.Lost)
}

// isCut reports whether the newest message of a stream that is no bucket is damaged.
func isCut(ctx context.Context, js jetstream.JetStream, b *SurveyedBucket, f Former) (bool, error) {
	if IsBucket(b.Name) || f.Floor >= f.Revision || b.Revision == 0 {
		return false, nil
	}
	stream, err := js.Stream(ctx, StreamOf(b.Name))
	if err != nil {
		return false, err
	}
	_, err = stream.GetMsg(ctx, b.Revision)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	return false, err
}

// lastMessage is the last message of a key.
type lastMessage struct {
	revision uint64
	deleted  bool
}

const (
	// plainPrefix begins the keys of messages in a bucket that are no objects. A store
	// writes one to learn the last revision of a cluster, and before a cleaning.
	plainPrefix = "="
	// stallTimeout is after how long a bucket is read key by key: a watch that comes upon a
	// damaged record waits for ever.
	stallTimeout = 2 * time.Second
)

// readEntries reads the last messages of a bucket, without values. unreadable are the keys
// that NATS lists and cannot read.
func readEntries(ctx context.Context, js jetstream.JetStream, bucket string) (has map[string]lastMessage,
	unreadable []string, err error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, nil, err
	}
	watch, err := kv.WatchAll(ctx, jetstream.MetaOnly())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = watch.Stop() }()
	has = map[string]lastMessage{}
	stall := time.NewTimer(stallTimeout)
	defer stall.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-stall.C:
			unreadable, err = readSingly(ctx, js, kv, bucket, has)
			return has, unreadable, err
		case e := <-watch.Updates():
			if e == nil { // the end, for now
				return has, nil, nil
			}
			stall.Reset(stallTimeout)
			add(has, e)
		}
	}
}

func add(has map[string]lastMessage, e jetstream.KeyValueEntry) {
	if !strings.HasPrefix(e.Key(), plainPrefix) {
		has[e.Key()] = lastMessage{revision: e.Revision(), deleted: e.Operation() != jetstream.KeyValuePut}
	}
}

// readSingly adds the keys that a watch has not brought.
func readSingly(ctx context.Context, js jetstream.JetStream, kv jetstream.KeyValue, bucket string,
	has map[string]lastMessage) (unreadable []string, err error) {
	stream, err := js.Stream(ctx, StreamOf(bucket))
	if err != nil {
		return nil, err
	}
	prefix := "$KV." + bucket + "."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, prefix)
		if _, known := has[key]; known || strings.HasPrefix(key, plainPrefix) {
			continue
		}
		e, err := kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyDeleted):
			has[key] = lastMessage{revision: info.State.LastSeq, deleted: true}
		case errors.Is(err, jetstream.ErrKeyNotFound):
			unreadable = append(unreadable, key)
		case err != nil:
			return nil, err
		default:
			add(has, e)
		}
	}
	return unreadable, nil
}
