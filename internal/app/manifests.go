package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/manifest"
)

// fieldManager owns the fields that manifests set.
const fieldManager = "glowplug-manifests"

// writers is the number of manifests that are applied at the same time.
const writers = 16

// applied is what became of the manifests: how many objects there were, and the
// boot MACs of the hosts among them.
type applied struct {
	mu        sync.Mutex
	good, bad int
	docs      map[*manifest.Document]bool // the good ones
	macs      []string                    // in the order of the files
}

// applyManifests applies every object under the paths by server-side apply,
// through the API, so that a manifest is checked like any other write. A bad
// one is logged and the others go on.
func applyManifests(ctx context.Context, own *client.Client, paths []string, log *slog.Logger) *applied {
	count := &applied{docs: map[*manifest.Document]bool{}}
	docs, err := manifest.Read(paths...)
	if err != nil {
		log.Error("manifests cannot be read", "error", err)
		count.bad++
	}
	for _, group := range inGroups(docs) {
		var writing errgroup.Group
		writing.SetLimit(writers)
		for _, doc := range group {
			writing.Go(func() error {
				if ctx.Err() == nil {
					count.apply(ctx, own, doc, log)
				}
				return nil
			})
		}
		_ = writing.Wait()
	}
	for i := range docs {
		if mac := bootMAC(&docs[i]); mac != "" && count.docs[&docs[i]] {
			count.macs = append(count.macs, mac)
		}
	}
	return count
}

func (a *applied) apply(ctx context.Context, own *client.Client, doc *manifest.Document, log *slog.Logger) {
	warnings, err := own.Apply(ctx, doc, fieldManager, nil, nil)
	for _, w := range warnings {
		log.Warn("manifest applied with a warning", "at", doc.String(), "kind", doc.Kind, "name", doc.Name, "warning", w)
	}
	if refused := (*client.Refused)(nil); errors.As(err, &refused) {
		err = errors.New(refused.Message)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		log.Error("manifest not applied", "at", doc.String(), "kind", doc.Kind, "name", doc.Name, "error", err)
		a.bad++
		return
	}
	log.Debug("manifest applied", "at", doc.String(), "kind", doc.Kind, "name", doc.Name)
	a.good++
	a.docs[doc] = true
}

// inGroups returns the documents in groups, of which one is applied after the other: the kinds that others use go
// first, and of the configs those without layers. Of two documents of one object the later one is in a later group.
func inGroups(docs []manifest.Document) [][]*manifest.Document {
	type place struct{ kind, time, isLayered int }
	groups, times := map[place][]*manifest.Document{}, map[string]int{}
	for i := range docs {
		doc := &docs[i]
		at, object := place{kind: -kinds.Position(doc.Kind)}, doc.Kind+" "+cmp.Or(doc.Namespace, v1.NamespaceDefault)+"/"+doc.Name
		at.time = times[object]
		times[object]++
		if hasLayers(doc) {
			at.isLayered = 1
		}
		groups[at] = append(groups[at], doc)
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b place) int {
		return cmp.Or(a.kind-b.kind, a.time-b.time, a.isLayered-b.isLayered)
	})
	ordered := make([][]*manifest.Document, 0, len(order))
	for _, at := range order {
		ordered = append(ordered, groups[at])
	}
	return ordered
}

// hasLayers reports whether a document is a config that is merged over others.
func hasLayers(doc *manifest.Document) bool {
	var config v1.IgnitionConfig
	return doc.Kind == "IgnitionConfig" && yaml.Unmarshal(doc.YAML, &config) == nil && len(config.Spec.Layers) > 0
}

// bootMAC is the hardware address of a host's document.
func bootMAC(doc *manifest.Document) string {
	var host v1.BareMetalHost
	if doc.Kind != "BareMetalHost" || yaml.Unmarshal(doc.YAML, &host) != nil {
		return ""
	}
	return host.Spec.BootMACAddress
}
