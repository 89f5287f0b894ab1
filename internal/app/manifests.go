package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/manifest"
)

const (
	// fieldManager owns the fields that manifests set.
	fieldManager = "glowplug-manifests"
	// applyTimeout bounds one object.
	applyTimeout = 30 * time.Second
)

// resources are the kinds that a manifest may hold; true: namespaced.
var resources = map[string]struct {
	resource   string
	namespaced bool
}{
	"IgnitionConfig": {"ignitionconfigs", true},
	"BareMetalHost":  {"baremetalhosts", true},
	"ISCSICdrom":     {"iscsicdroms", true},
	"StreamRelease":  {"streamreleases", false},
	"ConfigMap":      {"configmaps", true},
	"Namespace":      {"namespaces", false},
}

// applied is what became of the manifests: how many objects there were, and the
// boot MACs of the hosts among them.
type applied struct {
	good, bad int
	macs      []string
}

// applyManifests applies every object under the paths by server-side apply,
// through the API, so that a manifest is checked like any other write. A bad
// one is logged and the others go on.
func applyManifests(ctx context.Context, api *http.Client, base string, paths []string, log *slog.Logger) applied {
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
		warnings, err := applyOne(ctx, api, base, doc)
		for _, w := range warnings {
			log.Warn("manifest applied with a warning", "at", doc.String(), "kind", doc.Kind, "name", doc.Name, "warning", w)
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

// ApplyRequest is the server-side apply of one object, by the field manager of that
// name, to the API at base. Query has more parameters, such as dryRun.
func ApplyRequest(ctx context.Context, base, manager string, doc *manifest.Document, query url.Values) (*http.Request, error) {
	if doc.Err != nil {
		return nil, doc.Err
	}
	kind, ok := resources[doc.Kind]
	if !ok || doc.APIVersion != v1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	path := base + "/api/v1/"
	if kind.namespaced {
		namespace := doc.Namespace
		if namespace == "" {
			namespace = v1.NamespaceDefault
		}
		path += "namespaces/" + url.PathEscape(namespace) + "/"
	}
	path += kind.resource + "/" + url.PathEscape(doc.Name) + "?force=true&fieldManager=" + manager
	if len(query) > 0 {
		path += "&" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, path, bytes.NewReader(doc.YAML))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

func applyOne(ctx context.Context, api *http.Client, base string, doc *manifest.Document) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	req, err := ApplyRequest(ctx, base, fieldManager, doc, nil)
	if err != nil {
		return nil, err
	}
	resp, err := api.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		var status metav1.Status
		if json.Unmarshal(body, &status) == nil && status.Message != "" {
			return nil, fmt.Errorf("%s", status.Message)
		}
		return nil, fmt.Errorf("the API answered %s", resp.Status)
	}
	return Warnings(resp.Header), nil
}
