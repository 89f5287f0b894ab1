package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/events"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
)

const (
	// lostInterval is how often the stores are checked for lost objects.
	lostInterval = 2 * time.Second
	// maxLostEvents bounds the events of one store.
	maxLostEvents = 100

	reasonLost     = "ObjectLost"
	reasonSetAside = "BucketDamaged"
)

// losses implements decide.LostObjects.
type losses struct {
	stores map[string]*kvstore.Store
	// aside are the kinds whose buckets are missing as a whole.
	aside decide.Losses
}

// losses returns what knows of the lost objects that decide about machines.
func (a *App) losses() losses {
	return losses{a.stores, decide.Losses{
		Hosts: a.lost(kinds.BareMetalHosts), Configs: a.lost(kinds.IgnitionConfigs), Images: a.lost(kinds.ISCSICdroms),
		Namespaces: a.lost(kinds.Namespaces) || a.lost(kinds.RoleBindings),
	}}
}

// Lost returns the kinds of objects that decide about machines and of which the store has lost some, or all.
func (l losses) Lost() decide.Losses {
	lacks := func(resource string) bool { return len(l.stores[resource].Lost()) > 0 }
	return decide.Losses{
		Hosts:      l.aside.Hosts || lacks(kinds.BareMetalHosts),
		Configs:    l.aside.Configs || lacks(kinds.IgnitionConfigs),
		Images:     l.aside.Images || lacks(kinds.ISCSICdroms),
		Namespaces: l.aside.Namespaces || lacks(kinds.Namespaces) || lacks(kinds.RoleBindings),
	}
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
