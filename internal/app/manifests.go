package app

import (
	"context"
	"errors"
	"log/slog"

	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/manifest"
)

// fieldManager owns the fields that manifests set.
const fieldManager = "glowplug-manifests"

// applied is what became of the manifests: how many objects there were, and the
// boot MACs of the hosts among them.
type applied struct {
	good, bad int
	macs      []string
}

// applyManifests applies every object under the paths by server-side apply,
// through the API, so that a manifest is checked like any other write. A bad
// one is logged and the others go on.
func applyManifests(ctx context.Context, own *client.Client, paths []string, log *slog.Logger) applied {
	var count applied
	docs, err := manifest.Read(paths...)
	if err != nil {
		log.Error("manifests cannot be read", "error", err)
		count.bad++
	}
	for i := range docs {
		if ctx.Err() != nil {
			return count
		}
		doc := &docs[i]
		warnings, err := own.Apply(ctx, doc, fieldManager, nil, nil)
		for _, w := range warnings {
			log.Warn("manifest applied with a warning", "at", doc.String(), "kind", doc.Kind, "name", doc.Name, "warning", w)
		}
		if refused := (*client.Refused)(nil); errors.As(err, &refused) {
			err = errors.New(refused.Message)
		}
		if err != nil {
			log.Error("manifest not applied", "at", doc.String(), "kind", doc.Kind, "name", doc.Name, "error", err)
			count.bad++
			continue
		}
		log.Debug("manifest applied", "at", doc.String(), "kind", doc.Kind, "name", doc.Name)
		count.good++
		if mac := bootMAC(doc); mac != "" {
			count.macs = append(count.macs, mac)
		}
	}
	return count
}

// bootMAC is the hardware address of a host's document.
func bootMAC(doc *manifest.Document) string {
	var host v1.BareMetalHost
	if doc.Kind != "BareMetalHost" || yaml.Unmarshal(doc.YAML, &host) != nil {
		return ""
	}
	return host.Spec.BootMACAddress
}
