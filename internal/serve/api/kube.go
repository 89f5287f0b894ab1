package api

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiendpoints "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	bodymetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
)

const (
	corePrefix  = "/api"
	groupPrefix = "/apis"
	// requestTimeout bounds a request that is no watch, and minWatch is the least length of a watch that does not name
	// its own.
	requestTimeout = time.Minute
	minWatch       = 30 * time.Minute
	// publicAddress is in the discovery of /api. No client of ours uses it.
	publicAddress = "localhost:443"
)

// kubeEndpoints are the part of the API that the Kubernetes library serves: objects, discovery and OpenAPI. They are
// assembled as k8s.io/apiserver/pkg/server does it, without its admission plugins, informers and egress, which would
// be in the program and not be used.
type kubeEndpoints struct {
	authorizer authorizer.UnconditionalAuthorizer
	container  *restful.Container
	paths      *mux.PathRecorderMux
	groups     discovery.GroupManager
	// all and core are what discovery says of the groups in one answer each.
	all, core aggregated.ResourceManager
	v2        *common.Config
	v3        *common.OpenAPIV3Config
	kinds     runtime.EquivalentResourceRegistry
	// info reads the parts of a path, isLong tells which requests may last, and short counts the others.
	info   request.RequestInfoResolver
	isLong request.LongRunningRequestCheck
	short  *waitgroup.SafeWaitGroup
	// described serves the documents of OpenAPI and the list of all paths from its first call on. They take longer than
	// the rest of a start, and most servers are never asked for them.
	described func()
	// storages are destroyed at the end.
	storages []rest.Storage
}

// lasts reports whether a request of the library's may last.
var lasts = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString(isoSubresource))

func newKubeEndpoints(authorizer authorizer.UnconditionalAuthorizer) *kubeEndpoints {
	k := &kubeEndpoints{
		authorizer: authorizer, container: restful.NewContainer(), paths: mux.NewPathRecorderMux("glowplug"),
		groups: discovery.NewRootAPIsHandler(discovery.DefaultAddresses{DefaultAddress: publicAddress}, jsonAndYAML),
		all:    aggregated.NewResourceManager("apis"), core: aggregated.NewResourceManager("api"),
		kinds: runtime.NewEquivalentResourceRegistry(),
		info: backupInfo{&request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		}},
		isLong: func(r *http.Request, info *request.RequestInfo) bool {
			return r.URL.Path == backupPath || r.URL.Path == fsckPath || lasts(r, info)
		},
		short: new(waitgroup.SafeWaitGroup),
	}
	k.v2, k.v3 = openAPIConfigs()
	k.described = sync.OnceFunc(k.describe)
	metrics.Register()
	bodymetrics.Register()
	atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, MaxBodyBytes)
	k.container.Router(restful.CurlyRouter{})
	k.container.ServiceErrorHandler(func(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
		err := apierrors.NewGenericServerResponse(e.Code, "", schema.GroupResource{}, "", e.Message, 0, false)
		responsewriters.ErrorNegotiated(err, jsonAndYAML, schema.GroupVersion{}, resp, req.Request)
	})
	info := versionInfo()
	routes.Version{Version: &info}.Install(k.container)
	k.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(k.groups, k.all, nil).
		GenerateWebService(groupPrefix, metav1.APIGroupList{}))
	return k
}

// ServeHTTP serves a request that has passed the filters.
func (k *kubeEndpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, service := range k.container.RegisteredWebServices() {
		root := service.RootPath()
		rest, isBelow := strings.CutPrefix(r.URL.Path, root)
		// The service with the root /apis would match all paths below it: it gets /apis alone.
		if isBelow && (rest == "" || rest[0] == '/') && (root != groupPrefix || rest == "" || rest == "/") {
			k.container.Dispatch(w, r)
			return
		}
	}
	k.described()
	k.paths.ServeHTTP(w, r)
}

// ListedPaths are those of the answer to /, in order.
func (k *kubeEndpoints) ListedPaths() []string {
	paths := append(k.paths.ListedPaths(), "/healthz", "/livez", "/metrics", "/readyz") // of package app
	for _, service := range k.container.RegisteredWebServices() {
		paths = append(paths, service.RootPath())
	}
	slices.Sort(paths)
	return paths
}

// installCore serves resources of the group "" in the version v1, by their names.
func (k *kubeEndpoints) installCore(resources map[string]rest.Storage) error {
	found, err := k.install(corePrefix, schema.GroupVersion{Version: "v1"}, jsonAndYAML, resources)
	if err != nil {
		return err
	}
	k.core.AddGroupVersion("", found)
	versions := discovery.NewLegacyRootAPIHandler(discovery.DefaultAddresses{DefaultAddress: publicAddress}, jsonAndYAML,
		corePrefix)
	k.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(versions, k.core, k.core).
		GenerateWebService(corePrefix, metav1.APIVersions{}))
	return nil
}

// installGroup serves resources of another group in the version v1, by their names.
func (k *kubeEndpoints) installGroup(group string, serializer runtime.NegotiatedSerializer,
	resources map[string]rest.Storage) error {
	version := schema.GroupVersion{Group: group, Version: "v1"}
	found, err := k.install(groupPrefix, version, serializer, resources)
	if err != nil {
		return err
	}
	k.all.AddGroupVersion(group, found)
	preferred := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
	described := metav1.APIGroup{
		Name: group, Versions: []metav1.GroupVersionForDiscovery{preferred}, PreferredVersion: preferred,
	}
	k.groups.AddGroup(described)
	k.container.Add(discovery.NewAPIGroupHandler(jsonAndYAML, described).WebService())
	return nil
}

func (k *kubeEndpoints) install(prefix string, version schema.GroupVersion, serializer runtime.NegotiatedSerializer,
	resources map[string]rest.Storage) (found apidiscovery.APIVersionDiscovery, err error) {
	converter, err := k.converter(version, resources)
	if err != nil {
		return found, err
	}
	served := make(map[string][]string, len(resources))
	for resource, storage := range resources {
		served[resource] = []string{strings.TrimPrefix(path.Join(version.Group, version.Version), "/")}
		k.storages = append(k.storages, storage)
	}
	group := apiendpoints.APIGroupVersion{
		Storage: resources, Root: prefix, GroupVersion: version, AllServedVersionsByResource: served,
		OptionsExternalVersion: &schema.GroupVersion{Version: "v1"},
		Serializer:             serializer, ParameterCodec: parameterCodec,
		Typer: scheme, Creater: scheme, Convertor: scheme, ConvertabilityChecker: scheme, Defaulter: scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme), Namer: runtime.Namer(meta.NewAccessor()),
		TypeConverter: converter, EquivalentResourceRegistry: k.kinds, Authorizer: k.authorizer,
		MinRequestTimeout: minWatch, MaxRequestBodyBytes: MaxBodyBytes,
	}
	list, _, err := group.InstallREST(k.container)
	if err != nil {
		return found, fmt.Errorf("installing %s: %w", version, err)
	}
	return apidiscovery.APIVersionDiscovery{
		Freshness: apidiscovery.DiscoveryFreshnessCurrent, Version: version.Version, Resources: list,
	}, nil
}

// converter returns what server-side apply knows of the types of resources.
func (k *kubeEndpoints) converter(version schema.GroupVersion, resources map[string]rest.Storage) (
	managedfields.TypeConverter, error,
) {
	var names []string
	for _, storage := range resources {
		kind, err := apiendpoints.GetResourceKind(version, storage, scheme)
		if err != nil {
			return nil, err
		}
		sample, err := scheme.New(kind)
		if err != nil {
			return nil, err
		}
		names = append(names, util.GetCanonicalTypeName(sample))
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(k.v3, names...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(definitions, false)
}

// describe adds the documents of OpenAPI, and the list of all paths.
func (k *kubeEndpoints) describe() {
	routes.OpenAPI{Config: k.v2}.InstallV2(k.container, k.paths)
	routes.OpenAPI{V3Config: k.v3}.InstallV3(k.container, k.paths)
	routes.Index{}.Install(k, k.paths)
}

func (k *kubeEndpoints) destroy() {
	for _, storage := range k.storages {
		storage.Destroy()
	}
}
