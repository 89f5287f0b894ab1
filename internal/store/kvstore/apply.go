package kvstore

import (
	"context"
	"errors"
	"time"

	"github.com/google/btree"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/keylog"
)

// loading is a bucket that is being read.
type loading struct {
	tree *btree.BTreeG[*entry]
	// last is each key's last message, a tombstone or a damaged value, too.
	last map[string]keylog.Record
	// bad are the keys whose value is damaged or lost; unreadable those of them that
	// the server lists and cannot read.
	bad, unreadable map[string]bool
	size            int64
	rev             uint64
}

func (l *loading) add(f *follower, c change) {
	l.rev = max(l.rev, c.rev)
	f.own.observe(c)
	if c.skip {
		return
	}
	l.last[c.key] = keylog.Record{Revision: c.rev, Deleted: c.put == nil && !c.corrupt}
	if c.corrupt {
		l.bad[c.key] = true
		f.logDamaged(c)
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
		tree: newTree(), last: make(map[string]keylog.Record, feed.left),
		bad: map[string]bool{}, unreadable: map[string]bool{},
		rev: max(info.State.LastSeq, firstSeq-1),
	}
	f.foreign.Store(false)
	for !feed.complete() {
		c, err := feed.next()
		if errors.Is(err, errBehind) && !f.mayLag(info) {
			if err := f.salvage(ctx, l, stream); err != nil {
				return err
			}
			// What follows is read by a consumer that begins behind the damage.
			if err := f.reopen(ctx, feed, info, l.rev); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return err
		}
		l.add(f, c)
	}
	f.buried = f.verify(l, cleanedUpTo(info))
	f.keys.Replace(info.Created, f.known(l), l.rev)
	f.metrics.setDamaged(l.bad)
	f.replace(l)
	f.opts.Logger.Debug("read the bucket", "objects", l.tree.Len(), "bytes", l.size, "took", time.Since(began))
	return ctx.Err()
}

// replace makes what was loaded the mirror, and tells the observers.
func (f *follower) replace(l *loading) {
	items := make([]Item, 0, l.tree.Len())
	f.expiries.restart()
	l.tree.Ascend(func(e *entry) bool {
		items = append(items, e.Item)
		f.expiries.add(e)
		return true
	})
	f.mirror.reset(l.tree, l.size, l.rev)
	for _, o := range f.observers {
		o.Load(items)
	}
	f.progress.restart(l.rev)
	f.loaded.Store(true)
}

// apply brings one change into the mirror and to the observers, then lets those
// go on who wait for it.
func (s *Store) apply(c change) {
	s.remember(c)
	s.own.observe(c)
	switch {
	case c.skip:
		s.mirror.observe(c.rev)
	case c.corrupt:
		s.alarm(c)
		s.mirror.observe(c.rev)
	case c.put != nil:
		s.applyPut(c)
	default:
		s.metrics.healed(c.key)
		if s.mirror.remove(c.key, c.rev) != nil {
			s.observeDelete(c.key, c.rev)
		}
	}
	s.progress.reach(c.rev)
}

func (s *Store) applyPut(c change) {
	s.metrics.healed(c.key)
	// A key that was deleted and made again while nobody looked has become
	// another object: whoever knew the first must hear of its end.
	if prev := s.mirror.get(c.key); prev != nil && prev.uid != c.put.uid && prev.uid != "" && c.put.uid != "" {
		s.mirror.remove(c.key, c.rev-1)
		s.observeDelete(c.key, c.rev-1)
	}
	s.mirror.put(c.put)
	s.expiries.add(c.put)
	for _, o := range s.observers {
		o.Put(c.put.Item)
	}
}

func (s *Store) observeDelete(key string, rev uint64) {
	for _, o := range s.observers {
		o.Delete(key, rev)
	}
}

// reach moves on to a revision that the server has and will not send.
func (s *Store) reach(rev uint64) {
	s.mirror.observe(rev)
	s.progress.reach(rev)
}

// alarm reports a value that is not what was written.
func (s *Store) alarm(c change) {
	s.metrics.damaged(c.key)
	s.logDamaged(c)
}

func (s *Store) logDamaged(c change) {
	s.opts.Logger.Error("a stored object is damaged: its checksum does not agree. Apply it again, or restore it from a backup",
		"object", s.kind.Resource+"/"+c.key, "revision", c.rev)
}
