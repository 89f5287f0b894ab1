package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"glowplug/internal/client"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
)

// explained asks for an explanation. To explain any machine is a right in all namespaces: who does not have it asks for
// the explanation of the host that the query names, which is a right in its namespace.
func (o *clientOptions) explained(ctx context.Context, query url.Values) (*explain.Explanation, error) {
	answer := &explain.Explanation{}
	err := o.do(ctx, client.Request{Path: "/api/v1/explain", Query: query}, answer)
	if r := ofHost(query); r != nil && client.Code(err) == http.StatusForbidden {
		return answer, o.do(ctx, *r, answer)
	}
	return answer, err
}

// ofHost returns the request for the explanation of the host that a query names; nil: it names none with its namespace,
// or has other facts than such a request takes.
func ofHost(query url.Values) *client.Request {
	namespace, name, ok := strings.Cut(query.Get("host"), "/")
	if !ok {
		namespace, name = query.Get("namespace"), namespace
	}
	if namespace == "" || name == "" {
		return nil
	}
	rest := url.Values{}
	for key := range query {
		switch value := query.Get(key); {
		case key == "host" || key == "namespace" || value == "":
		case slices.Contains([]string{"mac", "ip", "hostname", "uuid", "role", "from"}, key):
			return nil
		default:
			rest.Set(key, value)
		}
	}
	return &client.Request{
		Resource: kinds.BareMetalHosts, Namespace: namespace, Name: name, Subresource: "explain", Query: rest,
	}
}
