package api

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/storage"
	restclient "k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/logs"
	"glowplug/internal/remote"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/snapshot"
)

// MaxBodyBytes bounds the body of a request: a source of 2 MiB, and beside it the
// annotation in which kubectl keeps the same source escaped once more.
const MaxBodyBytes = 8 << 20

// Resolver finds out who sent a request.
type Resolver interface {
	Caller(r *http.Request) identity.Caller
}

// Options is what a Server is made of.
type Options struct {
	// Stores holds the store of each of Kinds, by resource.
	Stores map[string]storage.Interface
	// Inventory has the templates and the hosts that they are rendered for; nil: none.
	Inventory *snapshot.Inventory
	// ConfigStatus brings the status of IgnitionConfigs up to date; nil: it stays empty.
	ConfigStatus ConfigStatus
	// Conflicts returns a sentence for each host that shares a hardware or IP
	// address with a host that is being written; nil: none.
	Conflicts func(*v1.BareMetalHost) []string
	// ImageWarnings and ConfigWarnings give a sentence for each host that an image, or
	// a config, which is being written would not do for; nil: none.
	ImageWarnings  func(*v1.ISCSICdrom) []string
	ConfigWarnings func(*v1.IgnitionConfig) []string
	// Render returns what a config comes to with those that it names, for the subresource
	// rendered of IgnitionConfigs; nil: nothing is fetched. See remote.Renderer.
	Render func(ctx context.Context, name string, config []byte, spec string) ([]byte, error)
	// Templates renders templates, which Inventory has; nil: none is.
	Templates decide.Renderer
	// Explain serves /api/v1/explain to callers who may use the API; nil: 404.
	Explain http.Handler
	// Upload serves PUT and HEAD of the subresource iso of ISCSICdroms to callers
	// who may use the API; nil: 404. Its bodies may be of any size and take any time.
	Upload http.Handler
	// InUse names who reads an ISCSICdrom's image now: it is not deleted then,
	// unless with a grace period of 0 (kubectl delete --force); nil: nobody does.
	InUse func(namespace, name string) []string

	// IsAdminToken reports whether a bearer token is the admin's; nil: none is.
	IsAdminToken func(token string) bool
	// TokenFile is a CSV of static tokens (token,user,uid,"groups"), read again when it
	// changes; empty: none.
	TokenFile string
	// ClientCAs returns what verifies client certificates, whose common name is the user
	// and whose organizations are the groups; nil: no certificate is accepted.
	ClientCAs func() *x509.CertPool

	// Requests and Watches bound the memory that requests take, and watches; nil:
	// they are not bounded.
	Requests, Watches *budget.Budget

	// Resolver finds out who sent a request; nil: who has the connection.
	Resolver Resolver
	// Limiter bounds the log lines that requests leave; nil: nothing does.
	Limiter *logs.Limiter
	// Logger takes what the server does in the background, and a line for each write and
	// each refused credential; nil discards it.
	Logger *slog.Logger
	// Registerer takes the server's own metrics; nil keeps none.
	Registerer prometheus.Registerer
}

// Server is the API. It works from New until Shutdown; its handlers are given to
// the listeners of the caller.
type Server struct {
	opts       Options
	generic    *genericapiserver.GenericAPIServer
	guard      *guard
	authorizer authorizer.Authorizer
	traces     *traces
	// lasting are the requests that may last for hours, watches and uploads, each with the
	// function that ends it.
	lasting sync.Map

	// ctx ends with Shutdown.
	ctx        context.Context
	stop       context.CancelFunc
	background sync.WaitGroup
}

// New makes the API and begins its work in the background. The stores need not
// have been loaded: until they are, requests are answered 503.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	for _, kind := range kinds.All() {
		if opts.Stores[kind.Resource] == nil {
			return nil, fmt.Errorf("there is no store for %s", kind.Resource)
		}
	}
	var tokens *tokenFile
	if opts.TokenFile != "" {
		var err error
		if tokens, err = openTokens(opts.TokenFile, opts.Logger); err != nil {
			return nil, err
		}
	}
	s := &Server{
		opts:       opts,
		guard:      newGuard(opts.IsAdminToken, tokens, opts.ClientCAs),
		authorizer: authorizer.AuthorizerFunc(authenticatedMayAll),
		traces:     &traces{resolver: opts.Resolver, limiter: opts.Limiter, logger: opts.Logger},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	namespaces := &namespaces{stores: opts.Stores}
	if err := s.assemble(namespaces); err != nil {
		s.stop()
		return nil, fmt.Errorf("API server: %w", err)
	}
	s.generic.RunPostStartHooks(s.ctx)
	s.background.Go(func() { namespaces.createDefault(s.ctx, opts.Logger) })
	if tokens != nil {
		s.background.Go(func() { tokens.Run(s.ctx, s.RecheckCallers) })
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.ConfigStatus == nil {
		o.ConfigStatus = noConfigStatus{}
	}
	if o.Render == nil {
		o.Render = remote.New(remote.Options{}).Render
	}
	if o.Inventory == nil {
		o.Inventory = snapshot.New(snapshot.Options{})
	}
	if o.Resolver == nil {
		o.Resolver = peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff})
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// assemble makes the library's server and installs the kinds.
func (s *Server) assemble(namespaces *namespaces) error {
	c := genericapiserver.NewConfig(codecs)
	c.Serializer = jsonAndYAML
	c.EffectiveVersion = effectiveVersion()
	c.ExternalAddress = "localhost:443"
	c.LoopbackClientConfig = s.LoopbackConfig()
	c.Authentication.Authenticator = s.guard
	c.Authorization.Authorizer = s.authorizer
	c.OpenAPIConfig, c.OpenAPIV3Config = openAPIConfigs()
	c.MaxRequestBodyBytes = MaxBodyBytes
	c.JSONPatchMaxCopyBytes = MaxBodyBytes
	c.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"),
		sets.NewString(isoSubresource))
	c.BuildHandlerChainFunc = s.chain
	c.EnableIndex = false
	c.EnableProfiling = false
	c.StorageObjectCountTracker = nil
	c.HealthzChecks, c.LivezChecks, c.ReadyzChecks = nil, nil, nil
	var err error
	if s.generic, err = c.Complete(nil).New("glowplug", genericapiserver.NewEmptyDelegate()); err != nil {
		return err
	}
	if err := s.installKinds(namespaces); err != nil {
		return err
	}
	s.generic.PrepareRun()
	return nil
}

// installKinds serves the kinds under /api/v1 and the access reviews beside them.
func (s *Server) installKinds(namespaces *namespaces) error {
	into := &endpoints{namespaces: namespaces, storage: map[string]rest.Storage{}}
	configs := install(into, configKind(&s.opts)).Store
	reportConfigs(configs, s.opts.ConfigStatus)
	into.storage[kinds.IgnitionConfigs+"/rendered"] = newRendered(configs, &s.opts)
	into.storage[kinds.ISCSICdroms] = &cdromREST{install(into, cdromKind(&s.opts)), s.opts.InUse}
	into.storage[kinds.Namespaces] = &namespaceREST{install(into, namespaceKind()), namespaces}
	install(into, hostKind(&s.opts))
	install(into, releaseKind())
	install(into, configMapKind())
	install(into, eventKind())
	if into.err != nil {
		return into.err
	}
	core := genericapiserver.NewDefaultAPIGroupInfo(v1.GroupName, scheme, parameterCodec, codecs)
	core.NegotiatedSerializer = jsonAndYAML
	core.VersionedResourcesStorageMap[v1.SchemeGroupVersion.Version] = into.storage
	if err := s.generic.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &core); err != nil {
		return err
	}
	reviews := genericapiserver.NewDefaultAPIGroupInfo(authorizationv1.GroupName, scheme, parameterCodec, codecs)
	reviews.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{
		"selfsubjectaccessreviews": &accessReview{s.authorizer},
		"selfsubjectrulesreviews":  &rulesReview{},
	}
	return s.generic.InstallAPIGroup(&reviews)
}

// Handler serves /api, /apis, /openapi, /version and explain to callers who come
// through a door: the one that their connection was marked with, else this one.
// Nothing of it but /version is open.
func (s *Server) Handler(door Door) http.Handler {
	info, err := json.MarshalIndent(versionInfo(), "", "  ")
	if err != nil {
		panic(err) // a struct of strings
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(info) // the client may have gone away
			return
		}
		if _, marked := r.Context().Value(doorKey{}).(Door); !marked {
			r = r.WithContext(WithDoor(r.Context(), door))
		}
		s.generic.Handler.ServeHTTP(w, r)
	})
}

// Believe reports whether a request to another part of the program comes from a
// caller who may use the API. Its context must have been marked WithDoor, or it
// is held to be plain HTTP that needs loopback.
func (s *Server) Believe(r *http.Request) bool {
	door := doorOf(r)
	if !bringsCredential(r) && !door.Admin {
		return false
	}
	response, ok, err := s.guard.AuthenticateRequest(r)
	return err == nil && ok && isAuthenticated(response.User)
}

// LoopbackConfig returns clients inside the program a way to the API, past the
// doors and without a network.
func (s *Server) LoopbackConfig() *restclient.Config {
	return &restclient.Config{
		Host:      "http://glowplug.invalid",
		Transport: inProcess{s},
		QPS:       -1,
		UserAgent: "glowplug",
	}
}

// Ready says why the API cannot answer, if it cannot.
func (s *Server) Ready() error {
	for _, kind := range kinds.All() {
		if err := s.opts.Stores[kind.Resource].ReadinessCheck(); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown ends watches, waits for requests under way, and stops
// the work in the background. Listeners should have stopped accepting before.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	s.background.Wait()
	drained := make(chan struct{})
	go func() { s.generic.NonLongRunningRequestWaitGroup.Wait(); close(drained) }()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("requests are still under way: %w", ctx.Err())
	}
	s.generic.Destroy()
	return err
}
