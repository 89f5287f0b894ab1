// Package streams keeps the releases of all CoreOS streams in memory, as their bucket has
// them, and which release of each is current.
package streams

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/feed"
	"glowplug/internal/store/kvstore"
)

// Stored is a release as the store has it.
type Stored struct {
	coreos.Imported
	// Name is the object's name.
	Name string
	// Pinned is spec.current, Marked status.current; Created is when the object was.
	Pinned, Marked bool
	Created        time.Time
}

// modified is what the releases of a stream are ordered by: when the document was
// made, so that an old release may be imported late without becoming current.
func (s *Stored) modified() time.Time {
	if !s.Document.LastModified.IsZero() {
		return s.Document.LastModified
	}
	return s.Created
}

// older orders releases: the last is current. Every replica finds the same one.
func older(a, b *Stored) int {
	if a.Pinned != b.Pinned {
		if b.Pinned {
			return -1
		}
		return 1
	}
	return cmp.Or(a.modified().Compare(b.modified()), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// Library is the releases of all streams, as the bucket has them. It is safe for
// concurrent use; the releases that it returns must not be changed.
type Library struct {
	log     *slog.Logger
	changes *feed.Feed[string]
	mu      sync.RWMutex
	byName  map[string]*Stored
	current map[string]*Stored // by stream
}

// NewLibrary makes a Library, which is filled through its Observer. log takes what
// cannot be read; nil discards it.
func NewLibrary(log *slog.Logger) *Library {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Library{log: log, changes: feed.New(""), byName: map[string]*Stored{}, current: map[string]*Stored{}}
}

// Subscribe returns a subscription to the names of streams of which another release becomes
// current, what is known of the current one changes, or which one is current is not yet written
// in the releases' status; after a load every stream. "" is all streams. A change may be
// published twice.
func (l *Library) Subscribe() *feed.Subscription[string] { return l.changes.Subscribe() }

// Current is the current release of a stream; nil: there is no such stream.
func (l *Library) Current(stream string) *Stored {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.current[stream]
}

// Find is a certain release of a stream; nil: it is not kept.
func (l *Library) Find(stream, release string) *Stored {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.byName[v1.StreamReleaseName(stream, release)]
	if s == nil || s.Stream != stream || s.Release != release {
		return nil
	}
	return s
}

// Releases are the releases of a stream, the current one last.
func (l *Library) Releases(stream string) []*Stored {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.releasesLocked(stream)
}

func (l *Library) releasesLocked(stream string) []*Stored {
	var all []*Stored
	for _, s := range l.byName {
		if s.Stream == stream {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, older)
	return all
}

// Streams are the names of the streams, in order.
func (l *Library) Streams() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.current))
}

// First is the stream of the release that was imported first of those that are
// kept; "" where there is none.
func (l *Library) First() string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := slices.SortedFunc(maps.Values(l.byName), func(a, b *Stored) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	if len(all) == 0 {
		return ""
	}
	return all[0].Stream
}

// Resolve finds the files of an artifact in a format, in a release of a stream, or with
// "" in its current release. The error names the part that does not exist, and those
// that do.
func (l *Library) Resolve(stream, release, architecture, artifact, format string) (coreos.Release, error) {
	found := l.Current(stream)
	known := found != nil
	if release != "" {
		found = l.Find(stream, release)
	}
	switch all := l.Streams(); {
	case found != nil:
		return found.Resolve(architecture, artifact, format)
	case known:
		return coreos.Release{}, fmt.Errorf("stream %s has no release %s: import it with glowplug coreos import",
			stream, release)
	case len(all) > 0:
		return coreos.Release{}, fmt.Errorf("there is no stream %s, only %s", stream, coreos.Few(all))
	}
	return coreos.Release{}, fmt.Errorf("there is no stream %s: import it with glowplug coreos import FILE-or-URL", stream)
}

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
		l.changes.Publish(stream)
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
