package streams

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/store/kvstore"
)

// Observer returns the observer that fills the Library.
func (l *Library) Observer() kvstore.Observer { return observer{l} }

// observer hides the filling from the Library's users.
type observer struct{ l *Library }

// Load implements kvstore.Observer.
func (o observer) Load(items []kvstore.Item) {
	l := o.l
	all := map[string]*Stored{}
	for _, item := range items {
		if s := l.decode(item); s != nil {
			all[s.Name] = s
		}
	}
	l.mu.Lock()
	streams := map[string]bool{}
	for stream := range l.current {
		streams[stream] = true
	}
	for _, s := range all {
		streams[s.Stream] = true
	}
	l.byName = all
	for stream := range streams {
		l.chooseLocked(stream)
	}
	l.mu.Unlock()
	l.notify(slices.Sorted(maps.Keys(streams)))
}

// Put implements kvstore.Observer.
func (o observer) Put(item kvstore.Item) { o.l.set(item.Key, o.l.decode(item)) }

// Delete implements kvstore.Observer.
func (o observer) Delete(key string, _ uint64) { o.l.set(key, nil) }

// set puts a release in the place of what has its name; nil takes that out.
func (l *Library) set(name string, s *Stored) {
	l.mu.Lock()
	old := l.byName[name]
	if s != nil {
		l.byName[name] = s
	} else {
		delete(l.byName, name)
	}
	var changed []string
	for _, at := range []*Stored{old, s} {
		if at != nil && !slices.Contains(changed, at.Stream) && l.chooseLocked(at.Stream) {
			changed = append(changed, at.Stream)
		}
	}
	l.mu.Unlock()
	l.notify(changed)
}

// chooseLocked finds the current release of a stream again, and reports whether it is
// another, the same with a change, or marked wrongly.
func (l *Library) chooseLocked(stream string) bool {
	releases := l.releasesLocked(stream)
	was := l.current[stream]
	if len(releases) == 0 {
		delete(l.current, stream)
		return was != nil
	}
	current := releases[len(releases)-1]
	l.current[stream] = current
	misMarked := func(s *Stored) bool { return s.Marked != (s == current) }
	return slices.ContainsFunc(releases, misMarked) || !same(was, current)
}

// same reports whether two releases list the same images; a may be nil.
func same(a, b *Stored) bool {
	return a != nil && a.Name == b.Name && a.MaxIgnition == b.MaxIgnition && slices.Equal(a.Mirrors, b.Mirrors) &&
		string(a.Document.Raw) == string(b.Document.Raw)
}

func (l *Library) notify(streams []string) {
	for _, stream := range streams {
		for _, f := range l.watchers {
			f(stream)
		}
	}
}

// decode reads a stored release; nil: it cannot be read, or its document does not
// hold against the rules of this version.
func (l *Library) decode(item kvstore.Item) *Stored {
	var release v1.StreamRelease
	if err := json.Unmarshal(item.Value, &release); err != nil {
		l.log.Error("a stored StreamRelease cannot be read and is left out", "name", item.Key, "error", err)
		return nil
	}
	doc, err := coreos.Parse([]byte(release.Spec.Document))
	if err != nil {
		l.log.Error("the document of a stored StreamRelease is not valid and is left out", "name", item.Key, "error", err)
		return nil
	}
	return &Stored{
		Imported: coreos.Imported{
			Stream: release.Spec.Stream, Release: release.Spec.Release, Document: doc,
			MaxIgnition: release.Spec.MaxIgnition, Mirrors: release.Spec.Mirrors,
		},
		Name: item.Key, Pinned: release.Spec.Current, Marked: release.Status.Current, Created: release.CreationTimestamp.Time,
	}
}
