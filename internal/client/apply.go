package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/manifest"
)

// namespaced has the kinds that a manifest may contain, and whether they have namespaces.
var namespaced = map[string]bool{
	"IgnitionConfig": true, "BareMetalHost": true, "ISCSICdrom": true, "ConfigMap": true, "StreamRelease": false,
	"Namespace": false,
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
	hasNamespace, ok := namespaced[doc.Kind]
	if !ok || doc.APIVersion != v1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	r := Request{
		Method: http.MethodPatch, Resource: strings.ToLower(doc.Kind) + "s", Name: doc.Name,
		Query: url.Values{"force": {"true"}, "fieldManager": {manager}},
		Body:  doc.YAML, Header: map[string]string{"Content-Type": string(types.ApplyYAMLPatchType)},
	}
	maps.Copy(r.Query, query)
	if hasNamespace {
		r.Namespace = cmp.Or(doc.Namespace, v1.NamespaceDefault)
	}
	header, err := c.Do(ctx, &r, out)
	if err != nil {
		return nil, err
	}
	return Warnings(header), nil
}
