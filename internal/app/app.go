// Package app wires the program: options in, a running server out. New opens
// what can fail, the listeners among it; Run serves until its context ends and
// takes everything down in reverse.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/audit"
	"glowplug/internal/backend"
	"glowplug/internal/client"
	"glowplug/internal/controller"
	"glowplug/internal/controller/backups"
	"glowplug/internal/controller/config"
	"glowplug/internal/controller/events"
	"glowplug/internal/controller/host"
	imagecontroller "glowplug/internal/controller/image"
	"glowplug/internal/controller/stream"
	"glowplug/internal/controller/template"
	"glowplug/internal/controller/unknown"
	"glowplug/internal/credentials"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/image"
	"glowplug/internal/keyfile"
	"glowplug/internal/loader"
	"glowplug/internal/logs"
	"glowplug/internal/remote"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/console/live"
	"glowplug/internal/serve/listener"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/peer"
	"glowplug/internal/serve/portal"
	"glowplug/internal/serve/pxe"
	"glowplug/internal/serve/sources"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/leading"
	"glowplug/internal/store/leases"
	"glowplug/internal/store/members"
	"glowplug/internal/store/policy"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/store/streams"
	"glowplug/internal/store/tokens"
)

const (
	// drainTimeout is how long a stop waits for requests in flight.
	drainTimeout = 20 * time.Second
	// closeTimeout is how long it then waits for pending writes, and for the store.
	closeTimeout = 10 * time.Second
)

// App is a server with its listeners open.
type App struct {
	settings    *settings
	stdout      io.Writer
	sink        *logs.Handler
	log         *slog.Logger
	limiter     *logs.Limiter // of the log lines of requests
	memoryLimit int64         // in bytes
	metrics     *prometheus.Registry
	trail       *audit.Trail // nil: there is no audit
	controllers *controller.Metrics
	refused     *prometheus.CounterVec // connections, by listener
	limited     *prometheus.CounterVec // requests, by class
	rates       *listener.Rates        // nil: there is no bound
	closers     []func()               // run in reverse by close

	backend    *backend.Backend
	inventory  *snapshot.Inventory
	streams    *streams.Library
	policy     *policy.Policy
	secrets    *secrets.Secrets
	tokens     *tokens.Tokens
	bootTokens *boottoken.Key
	alarm      *host.Alarm
	tracker    *boots.Tracker
	statuses   *host.StatusWriter
	events     *events.Recorder
	unknown    *unknown.Recorder
	rendered   *rendering.Cache
	images     *image.Library

	sources  *sources.Guard
	resolver *peer.Resolver
	decider  *decide.Decider

	configs         *config.Controller
	templates       *template.Controller
	checker         *host.Checker
	imageController *imagecontroller.Controller
	publisher       *stream.Controller

	listeners    listeners
	creds        *credentials.Credentials
	backups      *backups.Backups  // into --backup-dir; nil: there are none
	sharing      *sharing          // with the other servers of the store; nil: there are none
	clientCAFile *keyfile.Follower // follows --client-ca-file; nil without it
	api          *api.Server
	boots        *machine.Server
	own          *client.Client // of the API, without the listeners
	live         *live.Hub
	console      *console.Server // nil without --console
	artifacts    *os.Root        // --streams-dir; nil without it
	assets       *os.Root        // --assets-dir; nil without it
	loaders      *loader.Set     // nil without --pxe-interface
	networks     []*pxe.Server   // one for each --pxe-interface
	leases       *leases.Book
	leading      *leading.Elections // of the work that one of the servers does
	members      *members.Book
	// targets serves iSCSI on portalListener; both nil without an ISO directory.
	targets        *portal.Portal
	portalListener net.Listener
	// seeded is set once the manifests have been applied. Until then machines are asked
	// to retry: a 404 would be final for them.
	seeded atomic.Bool
}

// New checks the options, opens the store and the listeners, and connects the parts.
// Nothing is served before Run.
func New(ctx context.Context, o Options, stdout, stderr io.Writer) (*App, error) {
	s, err := o.check()
	if err != nil {
		return nil, err
	}
	a := &App{settings: s, stdout: stdout, metrics: prometheus.NewRegistry()}
	b := builder{a}
	b.openLog(stderr)
	for _, open := range []func() error{
		func() error { return b.openStore(ctx) }, func() error { return openAudit(b) }, b.openListeners, b.openImages,
		b.openDecider, b.openPortal, b.openFolders, func() error { return openNetworks(ctx, b) },
		b.serveAPI, func() error { return openConsole(b) }, b.openPublisher, b.serveBoots,
		func() error { return openMembers(b) },
		func() error { a.backups = newBackups(a); return nil },
	} {
		if err := open(); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

// builder makes the parts of an App, one after the other. What it has opened before an
// error is closed by close.
type builder struct{ *App }

func (a builder) openLog(stderr io.Writer) {
	a.sink = logs.NewHandler(stderr, logs.Options{Level: a.settings.level, JSON: a.settings.LogFormat == "json"})
	a.onClose(func() { _ = a.sink.Close() })
	a.log = slog.New(a.sink)
	a.limiter = logs.NewLimiter(a.log, a.metrics)
	a.onClose(a.limiter.Close)
	api.BridgeLogs(slog.New(audit.Losses(a.logOf("kubernetes").Handler())))
}

// logOf is the log of a library, whose lines are limited.
func (a *App) logOf(name string) *slog.Logger {
	return slog.New(a.limiter.Handler(a.sink, logs.Origin{Kind: logs.Library, Name: name}))
}

// openStore opens the store, and makes the objects in memory and the progress of machines.
func (a builder) openStore(ctx context.Context) error {
	s := a.settings
	if err := errors.Join(s.Store.CheckAbove(), s.checkPublic()); err != nil {
		return err
	}
	err := s.checkFiles(func(message, remedy string) { a.log.Warn(message, "hint", remedy) })
	if err != nil {
		return err
	}
	a.memoryLimit = limitMemory(a.log)
	a.inventory = snapshot.New(snapshot.Options{Logger: a.log, Isolation: a.settings.Access.IsolateNamespaces})
	find := func(ref model.Ref) *model.Host { return a.inventory.View().Host(ref) }
	a.controllers = controller.NewMetrics(a.metrics)
	a.events = events.New(events.Options{Logger: a.log, Registerer: a.metrics, Metrics: a.controllers})
	a.live = newHub(a.App)
	a.tracker = boots.New(boots.Options{
		Changed: func(host model.Ref) { markBoot(a.live, host) },
		Events:  a.events, Stored: func(host model.Ref) *v1.Boot { return storedBoot(a.App, host) },
		Exclusive: s.Store.NATSURL == "", Metrics: boots.NewMetrics(a.metrics), Logger: a.log,
	})
	a.statuses = host.NewStatusWriter(host.StatusOptions{
		Boots: a.tracker, Inventory: a.inventory, Host: find, Events: a.events, Metrics: a.controllers, Logger: a.log,
	})
	a.unknown = unknown.New(unknown.Options{
		Inventory: a.inventory, IsHost: isHost(a.inventory), Logger: a.log, Registerer: a.metrics, Metrics: a.controllers,
		Dropped: func(name string) { a.tracker.Forget(model.Stranger(name)) },
	})
	a.alarm = host.NewAlarm(host.AlarmOptions{
		Boots: a.tracker, Inventory: a.inventory, Statuses: a.statuses, Timeout: s.History.BootStepTimeout,
		Keep: s.keepBoots.Age, IsListed: a.unknown.Has, Ready: a.ready,
		Registerer: a.metrics,
	})
	registerPending(a.metrics, a.tracker, a.statuses, a.events)
	a.leases = leases.New(a.metrics)
	a.streams = streams.NewLibrary(a.log)
	a.policy = policy.New(a.log)
	a.secrets = secrets.New(a.log)
	a.backend, err = backend.Open(ctx, &s.Store, backend.Deps{
		Logger: a.log, Registerer: a.metrics, MemoryLimit: a.memoryLimit, KeepBoots: s.keepBoots,
		Asked: func() uint64 { return a.sources.Asked() },
		TakeFormer: func(ctx context.Context, js jetstream.JetStream) (func(context.Context) error, error) {
			return a.tracker.TakeFormer(ctx, js, find)
		},
	})
	if err != nil {
		return err
	}
	a.onClose(a.backend.Close)
	a.sources = sources.New(sources.Options{Notice: a.events.Notice, Logger: a.log, Registerer: a.metrics})
	registerMetrics(a.metrics, a.inventory)
	a.resolver = peer.NewResolver(peer.ResolverOptions{
		TrustedProxies: a.settings.proxies, Neighbors: a.settings.neighbors, Logger: a.log,
	})
	a.onClose(func() { _ = a.resolver.Close() })
	return nil
}

// storedBoot returns the stored boot of a host; nil: there is none.
func storedBoot(a *App, host model.Ref) *v1.Boot {
	boot := new(v1.Boot)
	err := a.backend.Stores[kinds.Boots].Get(context.Background(), "/"+kinds.Boots+"/"+host.String(),
		storage.GetOptions{ResourceVersion: "0"}, boot)
	if err != nil {
		return nil
	}
	return boot
}

// openDecider makes the decision about machines, and the controllers that use it.
func (a builder) openDecider() error {
	a.rendered = rendering.New(rendering.Options{
		Inventory: a.inventory, Secret: a.secrets.Value, Server: a.httpURL(), Registerer: a.metrics,
	})
	a.onClose(a.rendered.Close)
	a.decider = decide.New(decide.Options{
		Inventory: a.inventory,
		Policy: decide.Policy{
			Claims: a.settings.claims, Neighbors: a.settings.neighbors,
		},
		Progress: a.tracker, Images: a.images, Renderer: a.rendered,
		Lost:   a.backend,
		Tokens: a.bootTokens,
	})
	a.templates = template.New(template.Options{
		Cache: a.rendered, Inventory: a.inventory, Decider: a.decider,
		Store: a.backend.Stores[kinds.IgnitionConfigs], Recorder: a.events, Metrics: a.controllers, Logger: a.log,
		Rendered: func(host model.Ref) { a.checker.Recheck(host) },
	})
	a.configs = config.New(config.Options{
		Store: a.backend.Stores[kinds.IgnitionConfigs], Snapshot: a.inventory, Recorder: a.events,
		Metrics: a.controllers, Registerer: a.metrics, Logger: a.log,
		Misread: func(version string) bool { return explain.Misread(a.decider, version) },
	})
	a.checker = host.NewChecker(host.CheckerOptions{
		Inventory: a.inventory, Decider: a.decider, Journal: a.statuses, Ready: a.backend.Loaded,
		Store: a.backend.Stores[kinds.BareMetalHosts], Metrics: a.controllers, Logger: a.log,
	})
	return nil
}

// observers are the observers of each store, by resource.
func (a *App) observers() map[string][]kvstore.Observer {
	observers := map[string][]kvstore.Observer{
		kinds.BareMetalHosts:  {a.inventory.Hosts()},
		kinds.Boots:           {a.tracker.Observer()},
		kinds.IgnitionConfigs: {a.inventory.Configs()},
		kinds.ISCSICdroms:     {a.inventory.Images()},
		kinds.Namespaces:      {a.inventory.Namespaces()},
		kinds.StreamReleases:  {a.streams.Observer(), a.live.Observer(kinds.StreamReleases)},
		kinds.UnknownMachines: {a.unknown, a.live.Observer(kinds.UnknownMachines)},
		kinds.Events:          {a.live.Observer(kinds.Events)},
		kinds.Leases:          {a.leases},
		kinds.Members:         {a.members},
		kinds.Secrets:         {a.secrets.Observer(), a.templates.Secrets()},

		kinds.Roles:               {a.inventory.Roles()},
		kinds.RoleBindings:        {a.inventory.RoleBindings()},
		kinds.ClusterRoles:        {a.inventory.ClusterRoles()},
		kinds.ClusterRoleBindings: {a.inventory.ClusterRoleBindings()},
	}
	for _, of := range []map[string]kvstore.Observer{a.policy.Observers(), a.tokens.Observers()} {
		for resource, observer := range of {
			observers[resource] = append(observers[resource], observer)
		}
	}
	return observers
}

func (a builder) serveAPI() error {
	stores := map[string]storage.Interface{}
	for resource, store := range a.backend.Stores {
		stores[resource] = store
	}
	stores[kinds.Boots] = boots.NewStorage(a.backend.Stores[kinds.Boots], a.backend.History)
	cas, err := a.clientCAs(a.settings.Access.ClientCAFile)
	if err != nil {
		return err
	}
	renderer := remote.New(remote.Options{Allow: a.settings.allowFetch})
	a.onClose(renderer.Close)
	budgets := newBudgets(a.memoryLimit, a.metrics)
	explainer := machine.Explain(a.decider, a.resolver, a.ready, a.settings.Boot.ConfigsOverHTTPS)
	a.api, err = api.New(api.Options{
		Stores:      stores,
		Policy:      a.policy,
		Inventory:   a.inventory,
		Decider:     a.decider,
		Secrets:     a.secrets,
		MaxIgnition: a.imageController.MaxIgnition,
		Asked:       a.sources.Asked,
		Render:      renderer.Render,
		Templates:   a.rendered,
		HostStatus:  a.checker,

		BootContent:  a.backend.History.Content.Get,
		SetHostState: a.tracker.SetStatus,
		HostWarnings: func(view model.View, host, old *v1.BareMetalHost) []string {
			return append(a.checker.HostWarnings(view, host, old), missingSecret(a.secrets, host)...)
		},
		ImageWarnings: func(view model.View, cdrom *v1.ISCSICdrom) []string {
			return slices.Concat(a.checker.ImageWarnings(view, cdrom, a.imageController.MaxIgnition(cdrom)),
				a.imageController.ConfigArgumentWarnings(cdrom), missingSecret(a.secrets, cdrom))
		},
		ConfigWarnings: a.checker.ConfigWarnings,

		ConfigStatus: a.configs,

		RejectBrokenConfigs: a.settings.Access.RejectBrokenConfigs,

		Explain:     explainer,
		ExplainHost: explainer.Answer,
		Rewrite:     a.backend.Rewrite,
		Backup:      a.backend.Backup,
		Fsck:        func(ctx context.Context) (any, error) { return a.backend.Fsck(ctx) },
		Upload:      a.imageController.Upload(),
		InUse: func(namespace, name string) []string {
			return a.images.InUse(model.Ref{Namespace: namespace, Name: name})
		},
		NamespaceDeleted: a.events.Forget,
		Wrote: func(user, verb, resource string, object model.Ref) {
			a.live.Wrote(live.Write{Resource: resource, Ref: object, Verb: verb, User: user, At: time.Now()})
		},

		IsAdminToken:         a.creds.IsAdminToken,
		Tokens:               a.tokens,
		TokenFile:            a.settings.Access.TokenAuthFile,
		AuthenticationConfig: a.settings.Access.AuthenticationConfig,
		ClientCAs:            cas,
		Audit:                auditOfAPI(a.App),
		Requests:             budgets.requests,
		Watches:              budgets.watches,
		Reads:                budgets.reads,
		Writes:               budgets.writes,
		Resolver:             a.resolver,
		Limiter:              a.limiter,
		Logger:               a.log,
		Registerer:           a.metrics,
	})
	if err != nil {
		return err
	}
	a.onShutdown("stopping the API", a.api.Shutdown)
	return nil
}

func (a builder) serveBoots() error {
	a.boots = machine.New(machine.Options{
		Decider: a.decider, Resolver: a.resolver, Journal: notes{a.tracker, a.events, a.unknown}, Boot: a.bootPath(),
		Keep: a.backend.History.Content.Keep, Sources: a.sources, HTTPS: configsOverHTTPS(a.App),
		Streams: a.servedStreams(), Assets: a.assets, Ready: a.ready,
		Enforce: a.settings.neighbors == identity.NeighborsEnforce,
		Believe: a.api.Believe, Audit: auditOfBoots(a.App), Log: a.sink, Limiter: a.limiter, Registerer: a.metrics,
	})
	return nil
}

// Metrics returns the registry of the server's metrics.
func (a *App) Metrics() *prometheus.Registry { return a.metrics }

// notes records the requests of machines.
type notes struct {
	*boots.Tracker
	*events.Recorder
	strangers
}

// strangers keeps the list of unknown machines.
type strangers interface {
	Unknown(s decide.Sighting) (name string)
	Known(addr netip.Addr)
}

// isHost returns a function that reports whether a machine with a hardware address, which may be zero, and an IP
// address is a host. A host without hardware addresses is the machine at its address.
func isHost(inv *snapshot.Inventory) func(netaddr.MAC, netip.Addr) bool {
	return func(mac netaddr.MAC, addr netip.Addr) bool {
		view := inv.View()
		if mac != (netaddr.MAC{}) && view.HostByMAC(mac) != nil {
			return true
		}
		h := view.HostByIP(addr)
		return h != nil && (mac == (netaddr.MAC{}) || !h.HasMACs())
	}
}

func (a *App) onClose(f func()) { a.closers = append(a.closers, f) }

// onShutdown is onClose for what may take some time. what says that in the log if it fails.
func (a *App) onShutdown(what string, shutdown func(context.Context) error) {
	a.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			a.log.Warn(what, "error", err)
		}
	})
}

// close closes what New opened, the last first.
func (a *App) close() {
	for _, close := range slices.Backward(a.closers) {
		close()
	}
	a.closers = nil
}
