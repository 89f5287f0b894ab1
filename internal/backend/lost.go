package backend

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/events"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/natsd"
)

const (
	// lostInterval is how often the stores are checked for lost objects.
	lostInterval = 2 * time.Second
	// maxLostEvents bounds the events of one store.
	maxLostEvents = 100

	reasonLost     = "ObjectLost"
	reasonSetAside = "BucketDamaged"
)

// Lost returns the kinds of objects that decide about machines and of which the store has lost some, or all.
func (b *Backend) Lost() decide.Losses {
	lost := b.losses(func(resource string) bool { return len(b.Stores[resource].Lost()) > 0 })
	lost.Boots = b.Stores[kinds.Boots].Lost()
	return lost
}

// losses returns the kinds that decide about machines and for which lacks is true, or whose buckets are missing.
func (b *Backend) losses(lacks func(resource string) bool) decide.Losses {
	return decide.Losses{
		Hosts:   b.aside.Hosts || lacks(kinds.BareMetalHosts),
		Configs: b.aside.Configs || lacks(kinds.IgnitionConfigs),
		Images:  b.aside.Images || lacks(kinds.ISCSICdroms),
		Namespaces: b.aside.Namespaces || slices.ContainsFunc([]string{
			kinds.Namespaces, kinds.Roles, kinds.RoleBindings, kinds.ClusterRoles, kinds.ClusterRoleBindings}, lacks),
	}
}

// AnnounceLost records an event of each damaged bucket, and of each object that a store has lost, until ctx ends.
func (b *Backend) AnnounceLost(ctx context.Context, recorder *events.Recorder) {
	for _, d := range b.damages {
		recorder.Record(events.OfNobody, v1.EventWarning, reasonSetAside, d.Error())
	}
	announced := map[string]bool{}
	wait.UntilWithContext(ctx, func(context.Context) {
		for _, kind := range kinds.All() {
			keys := b.Stores[kind.Resource].Lost()
			for _, key := range keys[:min(maxLostEvents, len(keys))] {
				if name := kind.Resource + "/" + key; !announced[name] {
					announced[name] = true
					recorder.Record(reference(kind, key), v1.EventWarning, reasonLost,
						strings.TrimSpace("The stored object is lost or damaged. Apply it again, or restore the store from a backup. "+
							kind.Restored))
				}
			}
		}
	}, lostInterval)
}

// reference names an object by its kind and its bucket key.
func reference(kind *kinds.Kind, key string) v1.ObjectReference {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	return v1.ObjectReference{Kind: kind.Name, APIVersion: kind.GroupVersion.String(), Namespace: namespace, Name: name}
}

// WriteLost adds the damaged buckets and the lost objects to /readyz?verbose. With the latter the server is ready
// nevertheless: the remaining objects have to be served, and the lost ones to be applied again.
func (b *Backend) WriteLost(w io.Writer) {
	for _, d := range b.damages {
		if d.Lasts() {
			fmt.Fprintf(w, "[!]%v\n", d)
		}
	}
	for _, kind := range kinds.All() {
		if n := len(b.Stores[kind.Resource].Lost()); n > 0 {
			fmt.Fprintf(w, "[!]store-%s: %d objects are lost or damaged; the log and the events with the reason %s name them\n",
				kind.Resource, n, reasonLost)
		}
	}
}

var asideFolders = prometheus.NewDesc("glowplug_store_set_aside",
	"Folders of damaged buckets that were set aside, until they are removed; of a bucket that is missing, until the "+
		"next start. No series where there is none.", []string{"bucket"}, nil)

// damageCollector counts the buckets that are set aside when it is scraped.
type damageCollector []*natsd.Damage

// Describe implements prometheus.Collector.
func (damageCollector) Describe(ch chan<- *prometheus.Desc) { ch <- asideFolders }

// Collect implements prometheus.Collector.
func (c damageCollector) Collect(ch chan<- prometheus.Metric) {
	folders := map[string]float64{}
	for _, d := range c {
		if d.Lasts() {
			folders[d.Bucket]++
		}
	}
	for bucket, n := range folders {
		ch <- prometheus.MustNewConstMetric(asideFolders, prometheus.GaugeValue, n, bucket)
	}
}
