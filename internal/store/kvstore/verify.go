package kvstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/keylog"
)

// verify holds what was loaded against the key log. An object that the log knows
// and the bucket lacks, or has an older value of, is lost: it is left out of the
// mirror, counts as damaged, and is named. What is back although it was deleted is
// left out as well, and of transient objects an older value: their keys and
// revisions are returned. cleaned is up to where the bucket was cleaned: of what was
// deleted until then there is no trace.
func (l *loading) verify(cleaned uint64) (back map[string]uint64) {
	if l.keys.Created().IsZero() {
		return nil
	}
	complete := l.keys.Revision() >= cleaned
	var lost []string
	back = map[string]uint64{}
	for key, had := range l.keys.Keys() {
		has, there := l.last[key]
		switch {
		case there && has.Revision >= had.Revision || l.unreadable[key] || !there && (had.Deleted || !complete):
			continue
		case !had.Deleted && l.kind.Transient:
			back[key] = has.Revision // there will be no other of it
		case !had.Deleted:
			lost = append(lost, key)
			l.bad[key] = true
		case !has.Deleted:
			back[key] = has.Revision
		}
		l.tree.Delete(&entry{Item: Item{Key: key}})
	}
	l.alarmLost(lost)
	maps.DeleteFunc(back, func(_ string, rev uint64) bool { return rev == 0 }) // nothing is there
	if len(back) > 0 {
		l.opts.Logger.Warn("objects that had been deleted or replaced are in the bucket again, "+
			"after a loss of files: they are deleted again",
			"objects", slices.Sorted(maps.Keys(back))[:min(maxNamed, len(back))], "count", len(back))
	}
	return back
}

// alarmDamaged reports an object whose record is damaged.
func (l *loading) alarmDamaged(key string) {
	l.opts.Logger.Error("a stored object cannot be read any more: its record is damaged. "+l.remedy(), "object",
		l.kind.Resource+"/"+key)
}

// remedy says what to do about a lost object.
func (b *bucket) remedy() string {
	return strings.TrimSpace("Apply it again, or restore the store from a backup. " + b.kind.Restored)
}

// alarmLost reports objects that were stored and are no more.
func (l *loading) alarmLost(keys []string) {
	slices.Sort(keys)
	for _, key := range keys[:min(maxNamed, len(keys))] {
		l.opts.Logger.Error("a stored object is lost: its file is damaged. "+l.remedy(), "object", l.kind.Resource+"/"+key)
	}
	if len(keys) > maxNamed {
		l.opts.Logger.Error("more stored objects are lost", "bucket", l.kind.Bucket, "lost", len(keys))
	}
}

// known is what the key log says after a load: what was read, and of what is lost,
// or was deleted and is back, what the log said before.
func (l *loading) known() map[string]keylog.Record {
	known := l.last
	for key, had := range l.keys.Keys() {
		has, there := known[key]
		older := there && has.Revision < had.Revision
		if older || l.bad[key] && (!there || has.Revision == had.Revision) {
			known[key] = had
		}
	}
	return known
}

// A record whose bits have flipped on the disk is gone: the server answers "not
// found" for its key, says that it is healthy, and a consumer that comes upon it
// waits for ever. The server still lists the key, and that names the object.

// salvage completes a load that has stalled: it reads every key that the server
// lists and the consumer did not deliver, one by one.
func (l *loading) salvage(ctx context.Context, stream jetstream.Stream) error {
	l.opts.Logger.Warn("the bucket's next message does not come: reading the rest key by key", "read", l.tree.Len())
	infoCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := stream.Info(infoCtx, jetstream.WithSubjectFilter(l.subjectPrefix+">"))
	if err != nil {
		return fmt.Errorf("listing the bucket's keys: %w", err)
	}
	for subject := range info.State.Subjects {
		key, err := decodeKey(strings.TrimPrefix(subject, l.subjectPrefix))
		if _, seen := l.last[key]; err != nil || seen {
			continue
		}
		c, err := l.salvageKey(ctx, stream, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			l.bad[key], l.unreadable[key] = true, true
			l.alarmDamaged(key)
		case err != nil:
			return fmt.Errorf("reading the bucket: %w", err)
		default:
			l.add(c)
		}
	}
	l.rev = max(l.rev, info.State.LastSeq)
	return nil
}

func (l *loading) salvageKey(ctx context.Context, stream jetstream.Stream, subject string) (change, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return change{}, err
	}
	return l.readChange(ctx, raw.Subject, nats.Header(raw.Header), raw.Data, raw.Sequence)
}
