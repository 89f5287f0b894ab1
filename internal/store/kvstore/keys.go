package kvstore

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"glowplug/internal/store/keylog"
)

// maxNamed is how many lost objects the log names.
const maxNamed = 20

// keyPath is the file of the key log; "" for none.
func (s *Store) keyPath() string {
	if s.opts.KeyDir == "" {
		return ""
	}
	return filepath.Join(s.opts.KeyDir, s.kind.Bucket+".keys")
}

// remember brings a change into the key log.
func (s *Store) remember(c change) {
	switch {
	case c.skip:
	case c.put != nil:
		s.keys.Put(c.key, c.rev, s.noteOf(c.put))
	case c.corrupt:
		s.keys.Put(c.key, c.rev, s.keys.Get(c.key).Note) // of the value before it
	default:
		s.keys.Delete(c.key, c.rev)
	}
}

// noteOf is what has to be known of an object if it is lost.
func (s *Store) noteOf(e *entry) string {
	if s.kind.Note == nil {
		return ""
	}
	return s.kind.Note(e.Value)
}

// writeKeys keeps the file of the key log up to date until ctx ends.
func (s *Store) writeKeys(ctx context.Context) {
	s.keys.Keep(ctx, func() { s.keys.Reach(s.mirror.revision()) }, func(err error) {
		s.opts.Logger.Warn("the key log cannot be written; what the bucket loses meanwhile is not noticed at the next start",
			"error", err)
	})
}

// verify holds what was loaded against the key log. An object that the log knows
// and the bucket lacks, or has an older value of, is lost: it is left out of the
// mirror, counts as damaged, and is named. What is back although it was deleted is
// left out as well, and of transient objects an older value: their keys and
// revisions are returned. cleaned is up to where the bucket was cleaned: of what was
// deleted until then there is no trace.
func (f *follower) verify(l *loading, cleaned uint64) (back map[string]uint64) {
	if f.keys.Created().IsZero() {
		return nil
	}
	complete := f.keys.Revision() >= cleaned
	var lost []string
	back = map[string]uint64{}
	for key, had := range f.keys.Keys() {
		has, there := l.last[key]
		switch {
		case there && has.Revision >= had.Revision || l.unreadable[key] || !there && (had.Deleted || !complete):
			continue
		case !had.Deleted && f.kind.Transient:
			back[key] = has.Revision // there will be no other of it
		case !had.Deleted:
			lost = append(lost, key)
			l.bad[key] = true
		case !has.Deleted:
			back[key] = has.Revision
		}
		if e, ok := l.tree.Delete(&entry{Item: Item{Key: key}}); ok {
			l.size -= int64(len(e.Value))
		}
	}
	f.alarmLost(lost)
	maps.DeleteFunc(back, func(_ string, rev uint64) bool { return rev == 0 }) // nothing is there
	if len(back) > 0 {
		f.opts.Logger.Warn("objects that had been deleted or replaced are in the bucket again, "+
			"after a loss of files: they are deleted again",
			"objects", slices.Sorted(maps.Keys(back))[:min(maxNamed, len(back))], "count", len(back))
	}
	return back
}

// alarmLost reports objects that were stored and are no more.
func (f *follower) alarmLost(keys []string) {
	slices.Sort(keys)
	for _, key := range keys[:min(maxNamed, len(keys))] {
		f.opts.Logger.Error("a stored object is lost: its file is damaged. Apply it again, or restore the store from a backup",
			"object", f.kind.Resource+"/"+key)
	}
	if len(keys) > maxNamed {
		f.opts.Logger.Error("more stored objects are lost", "bucket", f.kind.Bucket, "lost", len(keys))
	}
}

// known is what the key log says after a load: what was read, and of what is lost,
// or was deleted and is back, what the log said before.
func (f *follower) known(l *loading) map[string]keylog.Record {
	known := l.last
	if f.kind.Note != nil {
		l.tree.Ascend(func(e *entry) bool {
			r := known[e.Key]
			r.Note = f.noteOf(e)
			known[e.Key] = r
			return true
		})
	}
	for key, had := range f.keys.Keys() {
		has, there := known[key]
		older := there && has.Revision < had.Revision
		if older || l.bad[key] && (!there || has.Revision == had.Revision) {
			known[key] = had
		}
	}
	return known
}

// bury deletes again what was deleted before; what fails is tried again later. A
// conflict says that somebody has written the key since.
func (f *follower) bury(ctx context.Context) {
	for key, rev := range f.buried {
		_, err := f.publish(ctx, write{key: key, expect: rev})
		if err == nil || errors.Is(err, errConflict) {
			delete(f.buried, key)
		}
	}
}
