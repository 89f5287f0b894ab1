package kvstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/btree"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/session"
)

// loading is a bucket that is being read.
type loading struct {
	*contents
	tree *btree.BTreeG[*entry]
	// last is each key's last message, a tombstone or a damaged value, too.
	last map[string]keylog.Record
	// bad are the keys whose value is damaged or lost; unreadable those of them that
	// the server lists and cannot read.
	bad, unreadable map[string]bool
	size            int64
	rev             uint64
}

func (l *loading) add(c change) {
	l.rev = max(l.rev, c.rev)
	l.own.observe(c)
	if c.skip {
		return
	}
	l.last[c.key] = keylog.Record{Revision: c.rev, Deleted: c.put == nil && !c.corrupt}
	if c.corrupt {
		l.bad[c.key] = true
		l.logDamaged(c)
		return
	}
	delete(l.bad, c.key)
	var prev *entry
	if c.put != nil {
		l.size += int64(len(c.put.Value))
		prev, _ = l.tree.ReplaceOrInsert(c.put)
	} else {
		prev, _ = l.tree.Delete(&entry{Item: Item{Key: c.key}})
	}
	if prev != nil {
		l.size -= int64(len(prev.Value))
	}
}

// load reads the whole bucket and replaces the mirror by it.
func (f *follower) load(ctx context.Context, feed *feed, stream jetstream.Stream, info *jetstream.StreamInfo) error {
	began := time.Now()
	l := &loading{
		contents: f.contents,
		tree:     newTree(), last: make(map[string]keylog.Record, feed.left),
		bad: map[string]bool{}, unreadable: map[string]bool{},
		rev: max(info.State.LastSeq, firstSeq-1),
	}
	f.foreign.Store(false)
	for !feed.complete() {
		c, err := feed.next()
		if errors.Is(err, session.ErrStalled) && !f.mayLag(info) {
			if err := l.salvage(ctx, stream); err != nil {
				return err
			}
			// What follows is read by a consumer that begins behind the damage.
			feed.consumer.Close()
			next, err := f.openFeed(ctx, info, l.rev+1)
			if err != nil {
				return err
			}
			*feed = *next
			break
		}
		if err != nil {
			return err
		}
		l.add(c)
	}
	f.buried = l.verify(cleanedUpTo(info))
	f.keys.Replace(info.Created, l.known(), l.rev)
	f.metrics.setDamaged(slices.Sorted(maps.Keys(l.bad)))
	f.replace(l)
	f.opts.Logger.Debug("read the bucket", "objects", l.tree.Len(), "bytes", l.size, "took", time.Since(began))
	return ctx.Err()
}

// replace makes the loaded bucket the mirror, and calls the observers.
func (f *follower) replace(l *loading) {
	items := make([]Item, 0, l.tree.Len())
	l.tree.Ascend(func(e *entry) bool {
		items = append(items, e.Item)
		f.expireLater(e)
		return true
	})
	f.mirror.reset(l.tree, l.size, l.rev)
	for _, o := range f.observers {
		o.Load(items)
	}
	f.progress.restart(l.rev)
	f.loaded.Store(true)
}
