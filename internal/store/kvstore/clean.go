package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Tombstones stay, so that no deleted object comes back, and there would be more
// of them for ever. A bucket that has many is cleaned: every object whose last
// message is older than the newest tombstone is written again as it is, which
// moves it to the end of the stream; then the server removes all that is before.
// It removes whole files, the oldest first, so that a value never outlives the
// tombstone that hides it, whenever the power goes; a file that holds later
// messages, too, stays as it is. An object that was written again has a new
// resourceVersion, as after a storage migration in Kubernetes.
//
// In the files of an earlier release there are values whose tombstones have
// expired, and after a change of the encryption there are values of former keys, or
// not encrypted ones. They have to go as files: padding makes the server begin a new
// one.

const (
	cleanInterval = 2 * time.Second
	// cleanPause is between two objects that are written again.
	cleanPause = 2 * time.Millisecond
	// cleanRetry is the pause after a cleaning that failed.
	cleanRetry = time.Minute
	// paddingBytes is the size of the largest file that the server makes of a bucket.
	paddingBytes = 8 << 20
)

// cleanedUpTo is the revision up to which a bucket was cleaned; 0 if it never was.
func cleanedUpTo(info *jetstream.StreamInfo) uint64 {
	rev, _ := strconv.ParseUint(info.Config.Metadata[cleanedKey], 10, 64) // 0 with an error
	return rev
}

// cleaner keeps the bucket of a session clean.
type cleaner struct {
	follower *follower
	store    *Store
}

// keepClean deletes again what is back, and cleans the bucket when it is due, until
// ctx ends.
func (f *cleaner) keepClean(ctx context.Context, stream jetstream.Stream, info *jetstream.StreamInfo) {
	ticker := time.NewTicker(cleanInterval)
	defer ticker.Stop()
	_, final := info.Config.Metadata[cleanedKey] // no tombstone has ever expired
	delay := f.store.bucket.opts.CleanDelay
	if f.store.bucket.opts.Exclusive {
		delay = 0
	}
	var upTo uint64
	var padded bool // before upTo
	var since, notBefore time.Time
	failed := func(err error) {
		upTo, notBefore = 0, time.Now().Add(cleanRetry)
		f.store.bucket.opts.Logger.Debug("the bucket was not cleaned", "error", err)
	}
	for {
		f.bury(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Once every value was written with the present key, the files of the former ones can go.
		pad := !final || f.follower.formerKeys && f.store.contents.mirror.staleEntries() == 0
		switch {
		case time.Now().Before(notBefore):
			continue
		case !f.isDue(pad):
			upTo = 0
			continue
		case upTo == 0:
			if err := f.beginCleaning(ctx, pad); err != nil {
				failed(err)
				continue
			}
			upTo, padded, since = f.store.contents.mirror.revision(), pad, time.Now()
		}
		if time.Since(since) < delay {
			continue
		}
		began := time.Now()
		moved, err := f.clean(ctx, stream, upTo)
		if err == nil && padded {
			err = f.forgetFormerKeys(ctx, stream)
		}
		if err != nil {
			failed(err)
			continue
		}
		final, upTo = true, 0
		f.store.bucket.opts.Logger.Info("cleaned the bucket of tombstones", "rewritten", moved, "took", time.Since(began))
	}
}

// isDue reports whether the bucket can be cleaned, and has to be: because former files have to go, or because
// of many tombstones.
func (f *cleaner) isDue(pad bool) bool {
	opts, objects := &f.store.bucket.opts, f.store.contents
	many := int64(objects.keys.Deleted()) >= max(int64(opts.TombstoneLimit), objects.count())
	return (pad || many) && len(objects.metrics.lostKeys()) == 0 && !objects.foreign.Load() && opts.Writable() == nil
}

// beginCleaning lets the server begin a new file, if that is needed.
func (f *cleaner) beginCleaning(ctx context.Context, pad bool) error {
	l, ok := f.store.connection.connected()
	if !pad || !ok {
		return nil
	}
	if f.store.bucket.opts.Room != nil {
		if err := f.store.bucket.opts.Room(2 * paddingBytes); err != nil {
			return err
		}
	}
	size := min(paddingBytes, int(l.js.Conn().MaxPayload())-1024)
	for sent := 0; sent <= paddingBytes; sent += size {
		msg := nats.NewMsg(f.store.bucket.subjectPrefix + barrierKey)
		msg.Data = make([]byte, size)
		if err := f.publishPlain(ctx, l, msg); err != nil {
			return err
		}
	}
	return f.publishPlain(ctx, l, nats.NewMsg(f.store.bucket.subjectPrefix+barrierKey))
}

// publishPlain stores a message that is no object.
func (f *cleaner) publishPlain(ctx context.Context, l *link, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		if refused := new(jetstream.APIError); !errors.As(err, &refused) {
			f.store.doubt()
		}
		return err
	}
	if f.store.bucket.opts.Exclusive {
		f.store.contents.acked(change{rev: ack.Sequence, skip: true})
	}
	if !f.store.contents.progress.await(ctx, ack.Sequence) {
		return ctx.Err()
	}
	return nil
}

// clean moves every object that was last written at or before a revision, then
// removes the messages up to there.
func (f *cleaner) clean(ctx context.Context, stream jetstream.Stream, upTo uint64) (moved int, err error) {
	for _, key := range f.writtenUpTo(upTo) {
		for e := f.store.contents.mirror.get(key); e != nil && e.Revision <= upTo; e = f.store.contents.mirror.get(key) {
			if err := pause(ctx, cleanPause); err != nil {
				return moved, err
			}
			if err := f.store.republish(ctx, e); err != nil && !errors.Is(err, errConflict) {
				return moved, err
			}
			moved++
		}
	}
	if err := f.store.barrier(ctx); err != nil {
		return moved, err
	}
	left, objects := f.writtenUpTo(upTo), f.store.contents
	if len(left) > 0 || len(objects.metrics.lostKeys()) > 0 || objects.foreign.Load() {
		return moved, fmt.Errorf("%d objects are still before revision %d", len(left), upTo)
	}
	// The key log has to know of the tombstones that go, or what they hid would
	// count as lost.
	f.store.contents.keys.Reach(f.store.contents.mirror.revision())
	if err := f.store.contents.keys.Write(true); err != nil {
		return moved, err
	}
	return moved, f.removeUpTo(ctx, stream, upTo)
}

// republish writes an entry again as it is.
func (s *writer) republish(ctx context.Context, e *entry) error {
	_, err := s.publish(ctx, write{key: e.Key, expect: e.Revision, value: e.Value, uid: e.uid, expires: e.expires})
	return err
}

// writtenUpTo lists the keys whose last message is not after a revision.
func (f *cleaner) writtenUpTo(rev uint64) (keys []string) {
	f.store.contents.mirror.current().tree.Ascend(func(e *entry) bool {
		if e.Revision <= rev {
			keys = append(keys, e.Key)
		}
		return true
	})
	return keys
}

// removeUpTo removes the messages up to a revision, and lets other servers know:
// one that was away meanwhile cannot resume, since it missed the tombstones.
func (f *cleaner) removeUpTo(ctx context.Context, stream jetstream.Stream, rev uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	cfg := info.Config
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[cleanedKey] = strconv.FormatUint(max(rev, cleanedUpTo(info)), 10)
	if _, err := f.follower.js.UpdateStream(ctx, cfg); err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(rev+1)); err != nil {
		return err
	}
	f.store.contents.keys.Forget(rev)
	return nil
}

// pause waits, or returns the error of a context that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// bury deletes again what was deleted before; what fails is tried again later. A
// conflict says that somebody has written the key since.
func (f *cleaner) bury(ctx context.Context) {
	for key, rev := range f.follower.buried {
		_, err := f.store.publish(ctx, write{key: key, expect: rev})
		if err == nil || errors.Is(err, errConflict) {
			delete(f.follower.buried, key)
		}
	}
}

// expireRetry is the pause after a delete that failed.
const expireRetry = 2 * time.Second

// expiring is an entry with an end. The server could expire messages by itself, but
// watches would not see that.
type expiring struct {
	key string
	rev uint64
}

// expireLater queues an entry for its end, if it has one.
func (s *contents) expireLater(e *entry) {
	if !e.expires.IsZero() {
		s.expiries.AddAfter(expiring{key: e.Key, rev: e.Revision}, time.Until(e.expires))
	}
}

// expire deletes entries at their end until ctx ends. Every replica does; the
// revision lets one succeed.
func (s *writer) expire(ctx context.Context) {
	context.AfterFunc(ctx, s.contents.expiries.ShutDown)
	for {
		x, shutdown := s.contents.expiries.Get()
		if shutdown {
			return
		}
		// An entry that was written since has another revision.
		if e := s.contents.mirror.get(x.key); e != nil && e.Revision == x.rev && ctx.Err() == nil {
			_, err := s.publish(ctx, write{key: x.key, expect: x.rev})
			if err != nil && !errors.Is(err, errConflict) {
				s.contents.expiries.Add(x)
				_ = pause(ctx, expireRetry)
			}
		}
		s.contents.expiries.Done(x)
	}
}
