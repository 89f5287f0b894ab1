package boots

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// Observer returns the observer of the bucket. It tells the tracker the boots from before the start, and those of
// other servers.
func (t *Tracker) Observer() kvstore.Observer { return follower{t} }

type follower struct{ tracker *Tracker }

// Load implements kvstore.Observer.
func (f follower) Load(items []kvstore.Item) {
	for _, item := range items {
		f.take(item, true)
	}
	f.tracker.due.Publish(Due{})
}

// Put implements kvstore.Observer.
func (f follower) Put(item kvstore.Item) { f.take(item, false) }

// take merges a stored boot.
func (f follower) take(item kvstore.Item, loading bool) {
	if f.isOwn(item.Key) {
		return
	}
	theirs, err := model.DecodeBoot(model.Stored{Key: item.Key, Value: item.Value})
	if err != nil {
		f.tracker.opts.Logger.Error("leaving out a boot that cannot be read", "object", "boots/"+item.Key, "error", err)
		return
	}
	f.tracker.mu.Lock()
	defer f.tracker.mu.Unlock()
	m := f.tracker.machines[theirs.Host]
	switch {
	case m == nil:
		f.tracker.machines[theirs.Host] = &machine{
			Boot: theirs, kept: theirs.Number, revision: item.Revision, unwritten: !model.IsStranger(theirs.Host),
		}
	case item.Revision <= m.revision:
		return
	default:
		m.revision, m.kept, m.own = item.Revision, theirs.Number, false
		if m.merge(theirs, func() *v1.Boot { return f.tracker.opts.whole(&theirs) }) {
			m.stored, m.ended = m.changes, nil
			m.resolve(nil)
		}
		leaveLocked(f.tracker, m)
		m.unwritten = !model.IsStranger(m.Host)
	}
	if !loading && !model.IsStranger(theirs.Host) {
		f.tracker.due.Publish(Due{Host: theirs.Host, Pause: otherGrace})
		f.tracker.opts.Changed(theirs.Host)
	}
}

// isOwn reports whether what is stored of a host is what this server is writing.
func (f follower) isOwn(key string) bool {
	if !f.tracker.opts.Exclusive {
		return false
	}
	f.tracker.mu.Lock()
	defer f.tracker.mu.Unlock()
	m := f.tracker.machines[refOf(key)]
	return m != nil && m.inFlight
}

// Delete implements kvstore.Observer. A machine whose boot was removed begins with the status of its host.
func (f follower) Delete(key string, revision uint64) {
	ref := refOf(key)
	f.tracker.mu.Lock()
	defer f.tracker.mu.Unlock()
	m := f.tracker.machines[ref]
	switch {
	case m == nil:
	case m.unstored():
		m.revision = revision
	default:
		delete(f.tracker.machines, ref)
	}
}
