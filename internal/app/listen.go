package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"glowplug/internal/credentials"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/listener"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/tokens"
)

// Limits of a connection: a client that sends its request a byte a minute does not hold
// one for ever. Package listener has those of bodies and answers.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 30 * time.Second
	maxHeaderBytes    = 64 << 10
)

// ListenError is an address that cannot be listened on.
type ListenError struct {
	Flag, Address string
	Err           error
}

func (e *ListenError) Error() string { return fmt.Sprintf("--%s %s: %v", e.Flag, e.Address, e.Err) }

func (e *ListenError) Unwrap() error { return e.Err }

// Hint returns the remedy.
func (e *ListenError) Hint() string {
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return "another program listens there; 'ss -ltnp' names it, or give another address with --" + e.Flag
	case errors.Is(e.Err, syscall.EACCES):
		return "ports below 1024 need root or CAP_NET_BIND_SERVICE"
	case errors.Is(e.Err, syscall.EADDRNOTAVAIL):
		return "this machine has no such address"
	}
	return ""
}

// httpListener is an open listener with its HTTP server.
type httpListener struct {
	name     string // http, https, admin or metrics
	rule     api.Listener
	listener net.Listener
	server   *http.Server
}

// listeners are those of the server.
type listeners []*httpListener

// named returns the first listener with a name; nil: there is none.
func (l listeners) named(name string) *httpListener {
	for _, d := range l {
		if d.name == name {
			return d
		}
	}
	return nil
}

// names returns the address of the HTTPS listener, unless it is every address of this
// machine. An address such as 127.0.0.2 is one of no interface.
func (l listeners) names() []string {
	if d := l.named("https"); d != nil {
		if at, err := netip.ParseAddrPort(d.listener.Addr().String()); err == nil && !at.Addr().IsUnspecified() {
			return []string{at.Addr().WithZone("").String()}
		}
	}
	return nil
}

// kubeconfigServer returns the URL in admin.kubeconfig: HTTPS if there is such a listener,
// else plain HTTP from this machine.
func (l listeners) kubeconfigServer() string {
	server := ""
	for _, d := range l {
		if d.name == "http" || d.name == "https" {
			server = localURL(d.name, d.listener.Addr())
		}
	}
	return server
}

// openListeners opens the listeners, and makes the credentials, which contain the address.
func (a builder) openListeners() error {
	s := a.settings
	a.refused, a.limited = newRefusedConnections(a.metrics), newLimitedRequests(a.metrics)
	if s.Limits.MaxRequestsPerSource > 0 {
		a.rates = listener.NewRates(s.Limits.MaxRequestsPerSource)
	}
	plain := api.Listener{NeedsLoopback: !s.Access.AllowInsecureAPI}
	for _, address := range s.Listeners.Listen {
		if err := a.openListener("http", "listen", address, plain); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name, flag, address string
		rule                api.Listener
	}{
		{"https", "listen-tls", s.Listeners.ListenTLS, api.Listener{}},
		{"admin", adminFlag, s.Listeners.AdminListen, api.Listener{Admin: true}},
		{"metrics", "metrics-listen", s.Listeners.MetricsListen, plain},
	} {
		if d.address == "" {
			continue
		}
		if err := a.openListener(d.name, d.flag, d.address, d.rule); err != nil {
			return err
		}
	}
	var err error
	a.creds, err = credentials.Ensure(credentials.Options{
		DataDir: s.Store.DataDir, PKIDir: s.Store.PKIDir, CertFile: s.Listeners.TLSCert, KeyFile: s.Listeners.TLSKey,
		Server: a.listeners.kubeconfigServer(), Logger: a.log,
		Names: slices.Concat(a.listeners.names(), s.Listeners.TLSSANs, s.httpsNames()),
	})
	if err != nil {
		return err
	}
	key, err := a.creds.TokenKey()
	if err != nil {
		return err
	}
	a.tokens = tokens.New(tokens.Options{Key: key, Logger: a.log})
	bootKey, err := a.creds.BootKey()
	if err != nil {
		return err
	}
	a.bootTokens = boottoken.NewKey(bootKey)
	if d := a.listeners.named("https"); d != nil {
		d.server.TLSConfig = a.creds.TLSConfig()
	}
	a.sharing, err = newSharing(a.App)
	return err
}

// openListener listens on the address of a flag. openListeners sets the certificate of HTTPS.
func (a builder) openListener(name, flag, address string, rule api.Listener) error {
	network, address := networkOf(address)
	if rule.Admin {
		if err := prepareAdmin(network, address); err != nil {
			return err
		}
	}
	l, err := listen(flag, network, address)
	if err != nil {
		return err
	}
	a.addListener(name, l, rule)
	return nil
}

// addListener bounds the connections of a listener, and has them served.
func (a builder) addListener(name string, l net.Listener, rule api.Listener) {
	if rule.Admin {
		l = listener.Users(l)
	}
	l = listener.Unstalled(listener.Bounded(l, listener.Bounds{
		Open: a.settings.Limits.MaxConnections, PerSource: a.settings.Limits.MaxConnectionsPerSource, Rates: a.rates,
		Source: a.source, Refused: a.refusedSource(name),
	}))
	d := &httpListener{name: name, rule: rule, listener: l}
	d.server = &http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return api.WithListener(context.Background(), rule) },
		Protocols:         new(http.Protocols),
	}
	d.server.Protocols.SetHTTP1(true)
	d.server.ConnContext = a.connContext
	if name == "https" {
		d.server.Protocols.SetHTTP2(true)
	} else {
		d.server.Protocols.SetUnencryptedHTTP2(true)
		d.listener = machine.Coalesce(listener.Heads(l))
		d.server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return a.connContext(machine.ConnContext(ctx, conn), conn)
		}
	}
	if rule.Admin {
		d.server.ConnContext = withUser(rule, d.server.ConnContext)
	}
	a.listeners = append(a.listeners, d)
	a.onClose(func() { _ = d.server.Close(); _ = d.listener.Close() })
}

// listen opens the address of a flag; a socket is for the server's own user alone.
func listen(flag, network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if err == nil && network == "unix" {
		if err = os.Chmod(address, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, &ListenError{Flag: flag, Address: address, Err: err}
	}
	return l, nil
}

// source returns what a connection is counted by: its user at the admin listener, its
// address elsewhere. Trusted proxies and users who are admitted are not bounded.
func (a builder) source(remote net.Addr) string {
	if user, ok := remote.(listener.UserAddr); ok {
		if user.Err == nil && isOwn(user.User) {
			return ""
		}
		return "user " + strconv.FormatUint(uint64(user.User), 10)
	}
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return ""
	}
	addr := tcp.AddrPort().Addr()
	if peer.Contains(a.settings.proxies, addr.WithZone("").Unmap()) {
		return ""
	}
	return netaddr.NetworkText(netaddr.Network(addr))
}

// refusedSource returns a function that counts the connections that are closed since their
// source has too many, and logs one a second.
func (a builder) refusedSource(name string) func(string) {
	refused, lines := a.refused.WithLabelValues(name), rate.NewLimiter(1, 1)
	return func(source string) {
		refused.Inc()
		if lines.Allow() {
			a.log.Warn("a connection was refused: its source has too many open, or opens too many in a second",
				"listener", name, "source", source, "limit", a.settings.Limits.MaxConnectionsPerSource,
				"flag", "--max-connections-per-source", "rate", a.settings.Limits.MaxRequestsPerSource,
				"rate_flag", "--max-requests-per-source")
		}
	}
}

// connContext stores what the requests of a connection are counted by, and its neighbour entry.
func (a builder) connContext(ctx context.Context, conn net.Conn) context.Context {
	if a.rates != nil {
		ctx = a.rates.ConnContext(ctx, a.source(conn.RemoteAddr()))
	}
	return a.resolver.ConnContext(ctx, conn)
}

// within returns a handler that passes the requests on that are within the rate of their source, and has the
// others refused. It counts these, and logs one a second.
func (a *App) within(class listener.Class, next, refuse http.Handler) http.Handler {
	if a.rates == nil {
		return next
	}
	limited, lines := a.limited.WithLabelValues(classNames[class]), rate.NewLimiter(1, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.rates.Allow(r, class) {
			next.ServeHTTP(w, r)
			return
		}
		limited.Inc()
		if lines.Allow() {
			a.log.Warn("a request was refused: its source sends too many", "of", classNames[class],
				"client", r.RemoteAddr, "limit", a.settings.Limits.MaxRequestsPerSource, "flag", "--max-requests-per-source")
		}
		refuse.ServeHTTP(w, r)
	})
}

var classNames = map[listener.Class]string{
	listener.Boots: "boots", listener.Others: "others", listener.Health: "health",
}

// serve answers requests until the listener is shut.
func (d *httpListener) serve(handler http.Handler) error {
	d.server.Handler = listener.Bodies(handler)
	l := d.listener
	if d.server.TLSConfig != nil {
		l = listener.TLS(l, d.server.TLSConfig, readHeaderTimeout)
	}
	err := d.server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", d.listener.Addr(), err)
}

// shut lets requests in flight finish, until ctx ends; then it cuts them off.
func (d *httpListener) shut(ctx context.Context) {
	if err := d.server.Shutdown(ctx); err != nil {
		_ = d.server.Close()
	}
}

// Values of --metrics.
const (
	metricsOpen       = "open"
	metricsCredential = "credential"
)

// healthPath returns the health check of a path, with paths below it; "" for other paths.
func healthPath(path string) string {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); first {
	case "livez", "readyz", "healthz":
		return first
	}
	return ""
}

// handler returns the handler of a listener: machines, by their paths; health and
// metrics; and the API with its own rules.
func (a *App) handler(d *httpListener) http.Handler {
	alone := a.settings.Listeners.MetricsListen != "" // metrics have a listener of their own
	metrics, apiServer := a.metricsHandler(), a.api.Handler(d.rule)
	health := a.within(listener.Health, a.health(), http.HandlerFunc(api.TooMany))
	boots := a.within(listener.Boots, a.boots, http.HandlerFunc(machine.TooMany))
	pages := a.within(listener.Others, a.console, http.HandlerFunc(api.TooMany))
	// No ServeMux: it redirects paths that are not clean, and a client that deletes the
	// object ".." would be redirected to delete the namespace.
	others := a.within(listener.Others, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics" && (d.name == "metrics" || !alone):
			metrics.ServeHTTP(w, r)
		case d.name == "metrics":
			http.Error(w, "only /metrics, /livez, /readyz and /healthz are served here", http.StatusNotFound)
		case r.URL.Path == "/metrics":
			http.Error(w, "metrics are served at the address of --metrics-listen alone", http.StatusNotFound)
		default:
			apiServer.ServeHTTP(w, r)
		}
	}), http.HandlerFunc(api.TooMany))
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case healthPath(r.URL.Path) != "":
			health.ServeHTTP(w, r)
		case d.name != "metrics" && a.console != nil && console.Answers(r):
			pages.ServeHTTP(w, r)
		case d.name != "metrics" && (machine.Answers(r.URL.Path) || a.settings.aliases[r.URL.Path] != ""):
			boots.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
	if d.rule.Admin {
		return api.Guarded(routes, apiServer)
	}
	return listener.FromNoOtherSite(routes, http.HandlerFunc(api.OtherSite))
}
