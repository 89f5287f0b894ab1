package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/events"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

const (
	// lostInterval is how often the stores are checked for lost objects.
	lostInterval = 2 * time.Second
	// maxLostEvents bounds the events of one store.
	maxLostEvents = 100

	reasonLost     = "ObjectLost"
	reasonSetAside = "BucketDamaged"
)

// lostObjects implements decide.LostObjects.
type lostObjects struct {
	stores map[string]*kvstore.Store
	// allConfigs, allImages, allNamespaces and allBindings are true where the bucket of that kind is
	// missing as a whole.
	allConfigs, allImages, allNamespaces, allBindings bool

	mu      sync.Mutex
	keys    []string // of configs
	configs []decide.LostConfig
}

// Lost returns the objects that the store has lost and that decide about machines.
func (l *lostObjects) Lost() decide.Lost {
	var bindings []snapshot.Ref
	for _, key := range l.stores[kinds.RoleBindings].Lost() {
		namespace, name, _ := strings.Cut(key, "/")
		bindings = append(bindings, snapshot.Ref{Namespace: namespace, Name: name})
	}
	return decide.Lost{
		Hosts:         l.stores[kinds.BareMetalHosts].Lost(),
		Configs:       l.lostConfigs(),
		Images:        l.stores[kinds.ISCSICdroms].Lost(),
		Namespaces:    l.stores[kinds.Namespaces].Lost(),
		AllConfigs:    l.allConfigs,
		AllImages:     l.allImages,
		AllNamespaces: l.allNamespaces,
		Bindings:      bindings,
		AllBindings:   l.allBindings,
	}
}

// lostConfigs returns the lost configs. Their outlines are cached until others are lost.
func (l *lostObjects) lostConfigs() []decide.LostConfig {
	store := l.stores[kinds.IgnitionConfigs]
	keys := store.Lost()
	if len(keys) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(keys, l.keys) {
		l.keys, l.configs = keys, nil
		for _, key := range keys {
			namespace, name, _ := strings.Cut(key, "/")
			l.configs = append(l.configs, decide.LostConfig{
				Ref: snapshot.Ref{Namespace: namespace, Name: name}, Outline: snapshot.ReadOutline(key, store.Note(key)),
			})
		}
	}
	return l.configs
}

// announceLost makes an event of each damaged bucket, and of each object that a store has lost, until ctx ends.
func (a *App) announceLost(ctx context.Context) {
	for _, d := range a.backend.damages {
		a.events.Record(events.OfNobody, v1.EventWarning, reasonSetAside, d.Error())
	}
	announced := map[string]bool{}
	wait.UntilWithContext(ctx, func(context.Context) {
		for _, kind := range kinds.All() {
			keys := a.stores[kind.Resource].Lost()
			for _, key := range keys[:min(maxLostEvents, len(keys))] {
				if name := kind.Resource + "/" + key; !announced[name] {
					announced[name] = true
					a.events.Record(reference(kind.Name, key), v1.EventWarning, reasonLost,
						strings.TrimSpace("The stored object is lost or damaged. Apply it again, or restore the store from a backup. "+
							kind.Restored))
				}
			}
		}
	}, lostInterval)
}

// reference names an object by its kind and its bucket key.
func reference(kind, key string) v1.ObjectReference {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	return v1.ObjectReference{Kind: kind, APIVersion: "v1", Namespace: namespace, Name: name}
}

// writeLost adds the damaged buckets and the lost objects to /readyz?verbose. With the latter the server is ready
// nevertheless: the remaining objects have to be served, and the lost ones to be applied again.
func (a *App) writeLost(w io.Writer) {
	for _, d := range a.backend.damages {
		if d.Lasts() {
			fmt.Fprintf(w, "[!]%v\n", d)
		}
	}
	for _, kind := range kinds.All() {
		if n := len(a.stores[kind.Resource].Lost()); n > 0 {
			fmt.Fprintf(w, "[!]store-%s: %d objects are lost or damaged; the log and the events with the reason %s name them\n",
				kind.Resource, n, reasonLost)
		}
	}
}
