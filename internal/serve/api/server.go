// Package api serves glowplug's objects as a Kubernetes API: the kinds of
// api/v1 under /api/v1, and roles and bindings under /apis, with every verb that kubectl and client-go use, on the
// library k8s.io/apiserver and the stores of package kvstore. It compiles configs
// as they are written, and decides who may call it (authentication.go, chain.go).
package api

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	restclient "k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/logs"
	"glowplug/internal/serve/oidc"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/policy"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/store/tokens"
)

// MaxBodyBytes bounds the body of a request: a source of 2 MiB, and beside it the
// annotation in which kubectl keeps the same source escaped once more.
const MaxBodyBytes = 8 << 20

// Resolver finds out who sent a request.
type Resolver interface {
	Caller(r *http.Request) identity.Caller
}

// Options are the parts and settings of a Server. All except Stores and Policy may be nil or empty.
type Options struct {
	// Stores has the store of each kind, by resource.
	Stores map[string]storage.Interface
	// ConfigStatus writes the status of IgnitionConfigs.
	ConfigStatus ConfigStatus
	// RejectBrokenConfigs refuses every config whose source does not compile.
	RejectBrokenConfigs bool
	// HostStatus has the conditions of BareMetalHosts; nil: they have the stored ones.
	HostStatus HostStatus
	// SetHostState stores the state of a machine as an administrator has changed it in the status of its host; nil:
	// the status alone has it.
	SetHostState func(ctx context.Context, host, old *v1.BareMetalHost) error
	// BootContent returns what a machine was given, by the name of model.ConfigContent or model.ScriptContent;
	// boots.ErrNotKept: it is not kept. Nil: nothing is.
	BootContent func(ctx context.Context, name string) ([]byte, error)
	// HostWarnings, ImageWarnings and ConfigWarnings return the warnings for an object that is
	// written, beside those of its status. view has the other objects. A host replaces old, which is
	// nil for a new one. A config is stored by then, unless the write is a dry run.
	HostWarnings   func(view model.View, host, old *v1.BareMetalHost) []string
	ImageWarnings  func(view model.View, cdrom *v1.ISCSICdrom) []string
	ConfigWarnings func(view model.View, config *v1.IgnitionConfig) []string
	// Render merges a config with those that it refers to (remote.Renderer), Templates renders
	// templates, and Inventory has the templates and hosts. The subresource rendered of
	// IgnitionConfigs needs all of them.
	Render    func(ctx context.Context, name string, config []byte, spec string) ([]byte, error)
	Templates decide.Renderer
	Inventory *snapshot.Inventory
	// Decider predicts the impact of writes on hosts, with Inventory; nil: nothing is predicted.
	// MaxIgnition returns the newest Ignition spec version that an image reads or will read; "":
	// that is not known.
	// Asked counts the requests of machines: predictions rest while it grows; nil: they never do.
	Decider     *decide.Decider
	MaxIgnition func(*v1.ISCSICdrom) string
	Asked       func() uint64
	// Secrets are the Secrets for predictions; nil: they have placeholders for all values.
	Secrets *secrets.Secrets
	// Explain serves /api/v1/explain to authenticated callers, and ExplainHost answers an inquiry about a host, which it
	// completes with what it knows of the network; nil: no host is explained.
	Explain     http.Handler
	ExplainHost func(r *http.Request, inquiry *explain.Inquiry) (*explain.Explanation, *fault.Error)
	// Rewrite writes objects again that are not encrypted as new ones are, for a second or so, and returns how
	// many it has written and how many are left.
	Rewrite func(context.Context) (written, left int, err error)
	// Backup writes a backup of the store; nil: there is none.
	Backup func(context.Context, io.Writer) (backup.Manifest, error)
	// Fsck reads all that is stored, and returns what it has found as a value for JSON; nil: nothing is read.
	Fsck func(context.Context) (any, error)
	// Upload serves PUT and HEAD of the subresource iso of ISCSICdroms to authenticated
	// callers. Its bodies may be of any size and take any time.
	Upload http.Handler
	// InUse returns the readers of the image of an ISCSICdrom. It is not deleted while there
	// are any, unless with a grace period of 0 (kubectl delete --force).
	InUse func(namespace, name string) []string

	// Policy has the roles and bindings of users.
	Policy *policy.Policy

	// Wrote is called after each write of a user that was made, of an object of the core group and none of its
	// subresources; nil: nobody has to know.
	Wrote func(user, verb, resource string, object model.Ref)
	// NamespaceDeleted is called when a namespace is gone; nil: nobody has to know.
	NamespaceDeleted func(namespace string)
	// IsAdminToken reports whether a bearer token is the admin's.
	IsAdminToken func(token string) bool
	// Tokens has the tokens of ServiceAccounts; nil: none is accepted.
	Tokens *tokens.Tokens
	// TokenFile is a CSV of static tokens (token,user,uid,"groups"), read again when it
	// changes.
	TokenFile string
	// AuthenticationConfig is a file of OpenID Connect issuers (AuthenticationConfiguration), read
	// again when it changes.
	AuthenticationConfig string
	// ClientCAs returns the CAs of client certificates, whose common name is the user and
	// whose organizations are the groups.
	ClientCAs func() *x509.CertPool

	// Requests and Watches bound the memory of requests and of watches, Reads and Writes the number of requests
	// that are executed at the same time.
	Requests, Watches, Reads, Writes *budget.Budget

	// Audit records requests; nil: there is no audit.
	Audit Audit
	// Resolver finds out who sent a request; nil: the peer of the connection.
	Resolver Resolver
	// Limiter bounds the log lines that requests cause.
	Limiter *logs.Limiter
	// Logger logs the work in the background, each write and each refused credential.
	Logger *slog.Logger
	// Registerer registers the server's own metrics.
	Registerer prometheus.Registerer

	rights rights
}

// Server is the API. The caller gives its handlers to listeners.
type Server struct {
	opts       Options
	kube       *kubeEndpoints
	handler    http.Handler // kube behind all filters
	guard      *guard
	authorizer authorizer.Authorizer
	traces     *traces
	terminator *terminator
	uses       *tokenUses
	hasRoles   atomic.Bool
	impacts    *impacts
	compiles   *compiles
	issuers    *oidc.Issuers // nil without --authentication-config
	// lasting are the requests that may last for hours, watches and uploads, each with the
	// function that ends it.
	lasting sync.Map

	// ctx ends with Shutdown.
	ctx        context.Context
	stop       context.CancelFunc
	background sync.WaitGroup
}

// New returns the API and starts its work in the background. Requests are answered 503 until
// the stores are loaded.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	for _, kind := range kinds.All() {
		if opts.Stores[kind.Resource] == nil {
			return nil, fmt.Errorf("there is no store for %s", kind.Resource)
		}
	}
	s := &Server{
		opts:       opts,
		authorizer: newAuthorizer(opts.Policy),
		traces: &traces{
			resolver: opts.Resolver, limiter: opts.Limiter, logger: opts.Logger, wrote: opts.Wrote,
		},
	}
	s.uses = &tokenUses{
		tokens: opts.Tokens, store: opts.Stores[kinds.Tokens], resolver: opts.Resolver, logger: opts.Logger,
		last: map[types.NamespacedName]*tokenUse{}, first: make(chan struct{}, 1),
	}
	s.opts.rights = rights{s.authorizer}
	s.ctx, s.stop = context.WithCancel(context.Background())
	follow, err := s.openGuard()
	if err != nil {
		s.stop()
		return nil, err
	}
	s.impacts, s.compiles = newImpacts(&s.opts), newCompiles(&s.opts)
	namespaces := &namespaces{stores: opts.Stores, inventory: opts.Inventory}
	s.kube = newKubeEndpoints(s.authorizer)
	if err := s.installKinds(namespaces); err != nil {
		s.stop()
		return nil, fmt.Errorf("API server: %w", err)
	}
	s.handler = s.chain()
	s.background.Go(func() {
		s.untilDone("cannot create the namespace default yet", func(ctx context.Context) error {
			return namespaces.ensure(ctx, v1.NamespaceDefault)
		})
	})
	s.background.Go(func() { s.terminator.run(s.ctx) })
	s.background.Go(func() { s.uses.run(s.ctx) })
	s.background.Go(func() { s.uses.watchRevocations(s.ctx, func() { s.recheck(hasToken) }) })
	s.background.Go(s.createRoles)
	for _, run := range follow {
		s.background.Go(run)
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.ConfigStatus == nil {
		o.ConfigStatus = noConfigStatus{}
	}
	if o.Resolver == nil {
		o.Resolver = peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff})
	}
	if o.Wrote == nil {
		o.Wrote = func(string, string, string, model.Ref) {}
	}
	if o.Tokens == nil {
		o.Tokens = tokens.New(tokens.Options{})
	}
	o.Inventory = cmp.Or(o.Inventory, snapshot.New(snapshot.Options{}))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// installKinds serves the kinds under /api/v1, and under /apis roles, bindings and the reviews of the caller.
func (s *Server) installKinds(namespaces *namespaces) error {
	into := &endpoints{
		namespaces: namespaces, inventory: s.opts.Inventory, written: s.impacts.warn, storage: map[string]rest.Storage{},
	}
	configs := install(into, configKind(&s.opts))
	configs.finished = slices.Insert(configs.finished, 0, configDone(&s.opts))
	rendered := newRendered(configs.Store, &s.opts)
	into.storage[kinds.IgnitionConfigs+"/rendered"] = rendered
	install(into, cdromKind(&s.opts)).spare = s.opts.spareInUse
	into.storage[kinds.Namespaces] = newNamespaceREST(install(into, namespaceKind(s.opts.Inventory)), s.opts.rights)
	hosts := install(into, hostKind(&s.opts))
	into.storage[kinds.IgnitionConfigs+"/plan"] = &planREST{readBytes{kinds.IgnitionConfigs}, rendered, hosts.Store}
	if s.opts.ExplainHost != nil {
		into.storage[kinds.BareMetalHosts+"/"+subresourceExplain] = &explainREST{
			readBytes{kinds.BareMetalHosts}, hosts.Store, &s.opts,
		}
	}
	install(into, releaseKind())
	install(into, configMapKind())
	install(into, secretKind(s.opts.rights))
	install(into, eventKind())
	s.installAccounts(into)
	into.storage[kinds.UnknownMachines] = readOnly{install(into, plainKind(kinds.UnknownMachines, unknownTable))}
	into.storage[kinds.Leases] = readOnly{install(into, plainKind(kinds.Leases, leaseTable))}
	into.storage[kinds.Members] = readOnly{install(into, plainKind(kinds.Members, memberTable))}
	boots := install(into, bootKind())
	into.storage[kinds.Boots] = viewOnly{boots}
	into.storage[kinds.Boots+"/"+subresourceRendered] = &replayREST{readBytes{kinds.Boots}, boots.Store, &s.opts}
	if into.err != nil {
		return into.err
	}
	into.storage["services"] = noServices{}
	roles := *into
	roles.storage = map[string]rest.Storage{}
	if s.installRoles(&roles); roles.err != nil {
		return roles.err
	}
	all := maps.Clone(into.storage)
	maps.Copy(all, roles.storage)
	s.terminator = &terminator{namespaces, all, s.opts.Logger, s.opts.NamespaceDeleted}
	return errors.Join(
		s.kube.installCore(into.storage),
		s.kube.installGroup(authorizationv1.GroupName, codecs, map[string]rest.Storage{
			"selfsubjectaccessreviews": review[*authorizationv1.SelfSubjectAccessReview]{s.reviewAccess},
			"selfsubjectrulesreviews":  review[*authorizationv1.SelfSubjectRulesReview]{s.reviewRules},
		}),
		s.kube.installGroup(authenticationv1.GroupName, codecs, map[string]rest.Storage{
			"selfsubjectreviews": review[*authenticationv1.SelfSubjectReview]{reviewCaller},
		}),
		s.kube.installGroup(rbacv1.GroupName, jsonAndYAML, roles.storage),
	)
}

// installAccounts adds the endpoints of ServiceAccounts and of their tokens.
func (s *Server) installAccounts(into *endpoints) {
	accounts := install(into, plainKind(kinds.ServiceAccounts, accountTable))
	records := install(into, plainKind(kinds.Tokens, tokenTable))
	into.storage[kinds.Tokens] = readOnly{records}
	into.storage[kinds.ServiceAccounts+"/token"] = &tokenRequests{accounts, records, s.uses.store, s.opts.Tokens}
	accounts.finished = append(accounts.finished, func(ctx context.Context, a *attempt) {
		if account, ok := a.old.(*v1.ServiceAccount); ok && a.now == nil && !a.dryRun {
			s.uses.remove(ctx, s.opts.Tokens.Of(account)) // they are invalid already
		}
	})
}

// Handler serves /api, /apis, /openapi, /version and explain. The listener of a request is that of
// its context, or this one. Only /version needs no credential.
func (s *Server) Handler(listener Listener) http.Handler {
	info := versionInfo()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			responsewriters.WriteRawJSON(http.StatusOK, info, w)
			return
		}
		if _, marked := r.Context().Value(listenerKey{}).(Listener); !marked {
			r = r.WithContext(WithListener(r.Context(), listener))
		}
		s.handler.ServeHTTP(w, r)
	})
}

// Believe reports whether the caller of an endpoint for machines may ask as any machine: a user with
// the verb impersonate on baremetalhosts of all namespaces. Without a listener in its context (WithListener),
// a request over plain HTTP needs loopback.
func (s *Server) Believe(r *http.Request) bool {
	if !bringsCredential(r) && !listenerOf(r).Admin {
		return false
	}
	who := s.User(r)
	if who == nil {
		return false
	}
	return allows(r.Context(), s.authorizer, attributesOf(who, "impersonate", kinds.BareMetalHosts, "", "", ""))
}

// MayList reports whether a user may list and watch a resource of the core group in a namespace; "": in all, or of the
// whole cluster.
func (s *Server) MayList(ctx context.Context, who user.Info, resource, namespace string) bool {
	return allows(ctx, s.authorizer, attributesOf(who, "list", resource, "", namespace, "")) &&
		allows(ctx, s.authorizer, attributesOf(who, "watch", resource, "", namespace, ""))
}

// MayGet reports whether a user may read a path that is no resource, as /metrics.
func (s *Server) MayGet(ctx context.Context, who user.Info, path string) bool {
	return allows(ctx, s.authorizer, authorizer.AttributesRecord{User: who, Verb: "get", Path: path})
}

// User returns the user of a request; nil: it has no valid credential.
func (s *Server) User(r *http.Request) user.Info {
	response, ok, err := s.guard.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil
	}
	s.uses.note(response.User, r)
	return response.User
}

// LoopbackConfig returns the config of clients inside the program, which need no credential
// and no network.
func (s *Server) LoopbackConfig() *restclient.Config {
	return &restclient.Config{
		Host:      "http://glowplug.invalid",
		Transport: inProcess{s},
		QPS:       -1,
		UserAgent: "glowplug",
	}
}

// Shutdown ends watches, waits for other requests, and stops the work in the background.
// Call it after the listeners have closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	s.background.Wait()
	drained := make(chan struct{})
	go func() { s.kube.short.Wait(); close(drained) }()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("requests are still under way: %w", ctx.Err())
	}
	s.kube.destroy()
	return err
}
