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

// library is the part of the API that the Kubernetes library serves: objects, discovery and OpenAPI. It puts together
// what k8s.io/apiserver/pkg/server does, without the admission plugins, the informers and the egress of that package,
// which would be in the program and not be used.
type library struct {
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
	info   *request.RequestInfoFactory
	isLong request.LongRunningRequestCheck
	short  *waitgroup.SafeWaitGroup
	// described serves the documents of OpenAPI and the list of all paths from its first call on. They take longer than
	// the rest of a start, and most servers are never asked for them.
	described func()
	// storages are destroyed at the end.
	storages []rest.Storage
}

func newLibrary(authorizer authorizer.UnconditionalAuthorizer) *library {
	l := &library{
		authorizer: authorizer, container: restful.NewContainer(), paths: mux.NewPathRecorderMux("glowplug"),
		groups: discovery.NewRootAPIsHandler(discovery.DefaultAddresses{DefaultAddress: publicAddress}, jsonAndYAML),
		all:    aggregated.NewResourceManager("apis"), core: aggregated.NewResourceManager("api"),
		kinds: runtime.NewEquivalentResourceRegistry(),
		info: &request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
		isLong: genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString(isoSubresource)),
		short:  new(waitgroup.SafeWaitGroup),
	}
	l.v2, l.v3 = openAPIConfigs()
	l.described = sync.OnceFunc(l.describe)
	metrics.Register()
	bodymetrics.Register()
	atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, MaxBodyBytes)
	l.container.Router(restful.CurlyRouter{})
	l.container.ServiceErrorHandler(func(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
		err := apierrors.NewGenericServerResponse(e.Code, "", schema.GroupResource{}, "", e.Message, 0, false)
		responsewriters.ErrorNegotiated(err, jsonAndYAML, schema.GroupVersion{}, resp, req.Request)
	})
	info := versionInfo()
	routes.Version{Version: &info}.Install(l.container)
	l.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(l.groups, l.all, nil).
		GenerateWebService(groupPrefix, metav1.APIGroupList{}))
	return l
}

// ServeHTTP serves a request that has passed the filters.
func (l *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, service := range l.container.RegisteredWebServices() {
		root := service.RootPath()
		rest, isBelow := strings.CutPrefix(r.URL.Path, root)
		// The service with the root /apis would match all paths below it: it gets /apis alone.
		if isBelow && (rest == "" || rest[0] == '/') && (root != groupPrefix || rest == "" || rest == "/") {
			l.container.Dispatch(w, r)
			return
		}
	}
	l.described()
	l.paths.ServeHTTP(w, r)
}

// ListedPaths are those of the answer to /, in order.
func (l *library) ListedPaths() []string {
	paths := append(l.paths.ListedPaths(), "/healthz", "/livez", "/metrics", "/readyz") // of package app
	for _, service := range l.container.RegisteredWebServices() {
		paths = append(paths, service.RootPath())
	}
	slices.Sort(paths)
	return paths
}

// installCore serves resources of the group "" in the version v1, by their names.
func (l *library) installCore(resources map[string]rest.Storage) error {
	found, err := l.install(corePrefix, schema.GroupVersion{Version: "v1"}, jsonAndYAML, resources)
	if err != nil {
		return err
	}
	l.core.AddGroupVersion("", found)
	versions := discovery.NewLegacyRootAPIHandler(discovery.DefaultAddresses{DefaultAddress: publicAddress}, jsonAndYAML,
		corePrefix)
	l.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(versions, l.core, l.core).
		GenerateWebService(corePrefix, metav1.APIVersions{}))
	return nil
}

// installGroup serves resources of another group in the version v1, by their names.
func (l *library) installGroup(group string, serializer runtime.NegotiatedSerializer,
	resources map[string]rest.Storage) error {
	version := schema.GroupVersion{Group: group, Version: "v1"}
	found, err := l.install(groupPrefix, version, serializer, resources)
	if err != nil {
		return err
	}
	l.all.AddGroupVersion(group, found)
	preferred := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
	described := metav1.APIGroup{
		Name: group, Versions: []metav1.GroupVersionForDiscovery{preferred}, PreferredVersion: preferred,
	}
	l.groups.AddGroup(described)
	l.container.Add(discovery.NewAPIGroupHandler(jsonAndYAML, described).WebService())
	return nil
}

func (l *library) install(prefix string, version schema.GroupVersion, serializer runtime.NegotiatedSerializer,
	resources map[string]rest.Storage) (found apidiscovery.APIVersionDiscovery, err error) {
	converter, err := l.converter(version, resources)
	if err != nil {
		return found, err
	}
	served := make(map[string][]string, len(resources))
	for resource, storage := range resources {
		served[resource] = []string{strings.TrimPrefix(path.Join(version.Group, version.Version), "/")}
		l.storages = append(l.storages, storage)
	}
	group := apiendpoints.APIGroupVersion{
		Storage: resources, Root: prefix, GroupVersion: version, AllServedVersionsByResource: served,
		OptionsExternalVersion: &schema.GroupVersion{Version: "v1"},
		Serializer:             serializer, ParameterCodec: parameterCodec,
		Typer: scheme, Creater: scheme, Convertor: scheme, ConvertabilityChecker: scheme, Defaulter: scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme), Namer: runtime.Namer(meta.NewAccessor()),
		TypeConverter: converter, EquivalentResourceRegistry: l.kinds, Authorizer: l.authorizer,
		MinRequestTimeout: minWatch, MaxRequestBodyBytes: MaxBodyBytes,
	}
	list, _, err := group.InstallREST(l.container)
	if err != nil {
		return found, fmt.Errorf("installing %s: %w", version, err)
	}
	return apidiscovery.APIVersionDiscovery{
		Freshness: apidiscovery.DiscoveryFreshnessCurrent, Version: version.Version, Resources: list,
	}, nil
}

// converter returns what server-side apply knows of the types of resources.
func (l *library) converter(version schema.GroupVersion, resources map[string]rest.Storage) (
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
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(l.v3, names...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(definitions, false)
}

// describe adds the documents of OpenAPI, and the list of all paths.
func (l *library) describe() {
	routes.OpenAPI{Config: l.v2}.InstallV2(l.container, l.paths)
	routes.OpenAPI{V3Config: l.v3}.InstallV3(l.container, l.paths)
	routes.Index{}.Install(l, l.paths)
}

func (l *library) destroy() {
	for _, storage := range l.storages {
		storage.Destroy()
	}
}
