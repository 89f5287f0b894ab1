package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/manifest"
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

// Apply writes the object of a document by server-side apply, as the field manager of
// that name, which takes over the fields of others. The query has more parameters, such
// as dryRun. The object as it is stored is read into out. It returns the server's
// warnings.
func (c *Client) Apply(
	ctx context.Context, doc *manifest.Document, manager string, query url.Values, out any,
) ([]string, error) {
	if doc.Err != nil {
		return nil, doc.Err
	}
	kind, ok := resources[doc.Kind]
	if !ok || doc.APIVersion != v1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	r := Request{
		Method: http.MethodPatch, Resource: kind.resource, Name: doc.Name,
		Query: url.Values{"force": {"true"}, "fieldManager": {manager}},
		Body:  doc.YAML, Header: map[string]string{"Content-Type": string(types.ApplyYAMLPatchType)},
	}
	for key, values := range query {
		r.Query[key] = values
	}
	if kind.namespaced {
		if r.Namespace = doc.Namespace; r.Namespace == "" {
			r.Namespace = v1.NamespaceDefault
		}
	}
	header, err := c.Do(ctx, &r, out)
	if err != nil {
		return nil, err
	}
	return Warnings(header), nil
}
