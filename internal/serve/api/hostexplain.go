package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/kinds"
)

// subresourceExplain says why the machine of a host receives what it does.
const subresourceExplain = "explain"

// explainREST is the subresource explain of a host. GET returns what /api/v1/explain says of the host, without what the
// user may not read of other namespaces.
type explainREST struct {
	readBytes
	hosts *registry.Store
	opts  *Options
}

// Connect implements rest.Connecter. The answer is not an object, so the handler writes it.
func (e *explainREST) Connect(ctx context.Context, name string, _ runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	if _, err := e.hosts.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, err
	}
	namespace := request.NamespaceValue(ctx)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer, err := e.answer(req, namespace, name)
		if err != nil {
			responder.Error(err)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		writeJSON(w, answer)
	}), nil
}

func (e *explainREST) answer(req *http.Request, namespace, name string) (*explain.Explanation, error) {
	query, err := hostInquiry(req.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	inquiry, failure := explain.ParseInquiry(query.Encode())
	if failure != nil {
		return nil, explainFailure(failure, name)
	}
	inquiry.Namespace, inquiry.Host = namespace, name
	answer, failure := e.opts.ExplainHost(req, inquiry)
	if failure != nil {
		return nil, explainFailure(failure, name)
	}
	// Whoever writes a host could give it the address of another one, to have that explained.
	found, other, _ := strings.Cut(answer.Host, "/")
	if found != "" && answer.Host != answer.Named &&
		!e.opts.rights.mayGet(req.Context(), kinds.BareMetalHosts, subresourceExplain, found, other) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kinds.BareMetalHosts + "/" + subresourceExplain}, name,
			errors.New("by the facts in its spec its machine is recognised as another host, which you may not get; correct the "+
				"address, MAC, UUID or name that both have"))
	}
	answer.Reduce(e.opts.Inventory.View(), e.readerIn(req.Context(), namespace))
	return answer, nil
}

// hostParameters are those of the subresource: none names another machine, and none has it served a config of another
// role.
var hostParameters = []string{"endpoint", "spec", "arch", "as", "accept", "user-agent"}

// hostInquiry returns the parameters of a query, and an error where there are others.
func hostInquiry(rawQuery string) (url.Values, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, apierrors.NewBadRequest("the query cannot be read: write special characters as %XX")
	}
	for key := range query {
		if !slices.Contains(hostParameters, key) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %q is not for the explanation of a host: want %s; GET %s "+
				"takes the facts of any machine", clip(key, maxTraced), strings.Join(hostParameters, ", "), explainPath))
		}
	}
	return query, nil
}

// explainFailure returns the error of an inquiry. The sentence that there is no such host names those of other
// namespaces.
func explainFailure(failure *fault.Error, name string) error {
	switch failure.Kind {
	case fault.NoMatch:
		return apierrors.NewNotFound(v1.Resource(kinds.BareMetalHosts), name)
	case fault.Malformed:
		return apierrors.NewBadRequest(failure.Sentence)
	case fault.Unavailable:
		return apierrors.NewServiceUnavailable(failure.Sentence)
	}
	return apierrors.NewInternalError(failure)
}

// readerIn returns what the user of a request for a host in a namespace may read.
func (e *explainREST) readerIn(ctx context.Context, namespace string) explain.Reader {
	reads := func(resource, namespace string) bool {
		return e.opts.rights.may(ctx, "get", resource, "", namespace, "") ||
			e.opts.rights.may(ctx, "list", resource, "", namespace, "")
	}
	return explain.Reader{
		Configs: remembered(func(of string) bool { return reads(kinds.IgnitionConfigs, of) }),
		All: remembered(func(of string) bool {
			return of == namespace || reads(kinds.IgnitionConfigs, of) && reads(kinds.BareMetalHosts, of) &&
				reads(kinds.ISCSICdroms, of)
		}),
	}
}

// remembered returns a function that asks once for each namespace: there may be many candidates.
func remembered(ask func(namespace string) bool) func(namespace string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		answer, ok := known[namespace]
		if !ok {
			answer = ask(namespace)
			known[namespace] = answer
		}
		return answer
	}
}
