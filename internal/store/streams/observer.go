package streams

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/store/kvstore"
)

// Observer is what the Library is filled through.
func (l *Library) Observer() kvstore.Observer { return (*observer)(l) }

// observer hides the Library's filling from its users.
type observer Library

// Load implements kvstore.Observer.
func (o *observer) Load(items []kvstore.Item) {
	l := (*Library)(o)
	all := map[string]*Stored{}
	for _, item := range items {
		if s := l.decode(item); s != nil {
			all[s.Name] = s
		}
	}
	l.mu.Lock()
	streams := map[string]bool{}
	for _, releases := range []map[string]*Stored{l.byName, all} {
		for _, s := range releases {
			streams[s.Stream] = true
		}
	}
	l.byName = all
	for stream := range streams {
		l.choose(stream)
	}
	watchers := l.watchers
	l.mu.Unlock()
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		notify(watchers, stream)
	}
}

// Put implements kvstore.Observer.
func (o *observer) Put(item kvstore.Item) {
	l := (*Library)(o)
	l.set(item.Key, l.decode(item))
}

// Delete implements kvstore.Observer.
func (o *observer) Delete(key string, _ uint64) { (*Library)(o).set(key, nil) }

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
		if at != nil && !slices.Contains(changed, at.Stream) && l.choose(at.Stream) {
			changed = append(changed, at.Stream)
		}
	}
	watchers := l.watchers
	l.mu.Unlock()
	for _, stream := range changed {
		notify(watchers, stream)
	}
}

// choose finds the current release of a stream again, and reports whether it is
// another, the same with something about it changed, or not marked as what it is.
func (l *Library) choose(stream string) bool {
	var current *Stored
	for _, s := range l.byName {
		if s.Stream == stream && (current == nil || older(current, s) < 0) {
			current = s
		}
	}
	was := l.current[stream]
	if current == nil {
		delete(l.current, stream)
	} else {
		l.current[stream] = current
	}
	for _, s := range l.byName {
		if s.Stream == stream && s.Marked != (s == current) {
			return true
		}
	}
	return !same(was, current)
}

// same reports whether two releases list the same images.
func same(a, b *Stored) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.MaxIgnition == b.MaxIgnition && slices.Equal(a.Mirrors, b.Mirrors) &&
		string(a.Document.Raw) == string(b.Document.Raw)
}

func notify(watchers []func(string), stream string) {
	for _, f := range watchers {
		f(stream)
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
