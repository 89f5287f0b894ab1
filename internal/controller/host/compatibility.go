// Package host keeps an eye on hosts whose image cannot read their config, and says
// so on the host before the machine boots.
package host

import (
	"context"
	"strings"
	"sync"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

const (
	// pause lets many changes come to one look.
	pause = 500 * time.Millisecond
	// rest is the time between two looks at all hosts, and the part of the time that
	// they take at most is one in restPart.
	rest     = 5 * time.Second
	restPart = 20
	// chunk is how many hosts are looked at in one go.
	chunk = 256
)

// Journal writes the condition of a host: sentence says why its image cannot read
// its config, "" that it can.
type Journal interface {
	ConfigReadable(host *snapshot.Host, sentence string)
}

// Watcher follows hosts, configs and images. Its observers are to come after those
// of the inventory.
type Watcher struct {
	inventory *snapshot.Inventory
	decider   *decide.Decider
	journal   Journal
	ready     func() bool

	mu    sync.Mutex
	all   bool
	hosts map[snapshot.Ref]struct{}
	wake  chan struct{}
	// told is what was last said of hosts; Run's own.
	told map[snapshot.Ref]said
}

// said is what was said of a host, and of which state of it.
type said struct {
	sentence string
	revision uint64
}

// New makes a Watcher. Before ready nothing is looked at.
func New(inv *snapshot.Inventory, decider *decide.Decider, journal Journal, ready func() bool) *Watcher {
	return &Watcher{
		inventory: inv, decider: decider, journal: journal, ready: ready,
		hosts: map[snapshot.Ref]struct{}{}, wake: make(chan struct{}, 1), told: map[snapshot.Ref]said{},
	}
}

// Hosts is the observer of hosts.
func (w *Watcher) Hosts() kvstore.Observer { return observer{w, true} }

// Configs is the observer of configs.
func (w *Watcher) Configs() kvstore.Observer { return observer{w, false} }

// Images is the observer of images. How far a download is does not matter here.
func (w *Watcher) Images() kvstore.Observer {
	return &imageObserver{observer: observer{w, false}, seen: map[string]facts{}}
}

type observer struct {
	w     *Watcher
	hosts bool
}

// imageObserver passes on what matters of an image.
type imageObserver struct {
	observer
	mu   sync.Mutex
	seen map[string]facts
}

// facts are what matters of an image.
type facts struct {
	maxIgnition, release string
	config               snapshot.Ref
}

func (o *imageObserver) Put(item kvstore.Item) {
	var now facts
	namespace, name, _ := strings.Cut(item.Key, "/")
	view := o.w.inventory.View()
	if i := view.Image(snapshot.Ref{Namespace: namespace, Name: name}); i != nil {
		now = facts{i.MaxIgnition, i.Release, i.Config}
	}
	view.End()
	o.mu.Lock()
	was, known := o.seen[item.Key]
	o.seen[strings.Clone(item.Key)] = now
	o.mu.Unlock()
	if !known || was != now {
		o.observer.Put(item)
	}
}

func (o *imageObserver) Delete(key string, revision uint64) {
	o.mu.Lock()
	delete(o.seen, key)
	o.mu.Unlock()
	o.observer.Delete(key, revision)
}

func (o observer) Load([]kvstore.Item)         { o.w.note("", false) }
func (o observer) Put(item kvstore.Item)       { o.w.note(item.Key, o.hosts) }
func (o observer) Delete(key string, _ uint64) { o.w.note(key, o.hosts) }

// note notes what is to be looked at: one host, or all.
func (w *Watcher) note(key string, one bool) {
	w.mu.Lock()
	if namespace, name, ok := strings.Cut(key, "/"); one && ok {
		w.hosts[snapshot.Ref{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}] = struct{}{}
	} else {
		w.all = true
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run looks at what has changed until ctx ends; its error is always nil.
func (w *Watcher) Run(ctx context.Context) error {
	var looked time.Time
	between := rest
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		wait := pause
		w.mu.Lock()
		if since := time.Since(looked); w.all && since < between {
			wait = max(pause, between-since)
		}
		w.mu.Unlock()
		for first := true; first || !w.ready(); first = false {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
		w.mu.Lock()
		all, hosts := w.all, w.hosts
		w.all, w.hosts = false, map[snapshot.Ref]struct{}{}
		w.mu.Unlock()
		if all {
			began := time.Now()
			w.lookAtAll(ctx)
			looked = time.Now()
			between = max(rest, restPart*looked.Sub(began))
			continue
		}
		for ref := range hosts {
			w.look(ctx, ref)
		}
	}
}

// lookAtAll looks at all hosts that boot an image.
func (w *Watcher) lookAtAll(ctx context.Context) {
	view := w.inventory.View()
	hosts := view.HostsOf(func(snapshot.Ref) bool { return true })
	view.End()
	seen := make(map[snapshot.Ref]struct{}, len(hosts))
	for i, h := range hosts {
		if i%chunk == 0 && ctx.Err() != nil {
			return
		}
		seen[h.Ref] = struct{}{}
		w.compare(ctx, h)
	}
	for ref := range w.told {
		if _, ok := seen[ref]; !ok {
			w.look(ctx, ref)
		}
	}
}

// look looks at one host, which may be gone.
func (w *Watcher) look(ctx context.Context, ref snapshot.Ref) {
	view := w.inventory.View()
	h := view.Host(ref)
	view.End()
	if h == nil {
		delete(w.told, ref)
		return
	}
	w.compare(ctx, h)
}

// compare has the condition of a host written where it is not true, once for each
// state that the host is seen in.
func (w *Watcher) compare(ctx context.Context, h *snapshot.Host) {
	s, known := w.decider.SkewOfStored(h, ctx.Done())
	if !known {
		return // what was said last stands
	}
	sentence := ""
	if s != nil {
		sentence = s.String()
	}
	told, before := w.told[h.Ref]
	stands := h.Unreadable() == (sentence != "")
	switch {
	case stands && sentence == "":
		delete(w.told, h.Ref)
		return
	case before && told.sentence == sentence && (stands || told.revision == h.Revision):
		return
	}
	// A write that says nothing new, as after a start, is none to the store.
	w.told[h.Ref] = said{sentence, h.Revision}
	w.journal.ConfigReadable(h, sentence)
}
