package remote

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/egress"
)

// Bounds of what one config makes be fetched. Ignition itself has none.
const (
	// MaxDepth bounds how deep configs name configs.
	MaxDepth = 16
	// MaxConfigs bounds the configs that are fetched.
	MaxConfigs = 64
	// maxPart bounds one of them, unpacked, and maxTotal all, in bytes.
	maxPart  = 8 << 20
	maxTotal = 32 << 20
	// maxAtOnce bounds the configs that are rendered at one time.
	maxAtOnce = 8
	// DefaultTimeout is how long rendering may take by default.
	DefaultTimeout = 30 * time.Second
)

// Endpoints are the servers behind URLs that name none. Empty ones are the services'
// own.
type Endpoints struct {
	// S3 and GS are URLs, such as http://127.0.0.1:9000.
	S3, GS string
}

// Options is what a Renderer is made of.
type Options struct {
	// Allow says where may be fetched from.
	Allow egress.Policy
	// Timeout bounds the rendering of one config; 0: DefaultTimeout.
	Timeout time.Duration
	// Endpoints stand in for those of S3 and Google Cloud Storage.
	Endpoints Endpoints
}

// Renderer renders configs, some at a time.
type Renderer struct {
	dialer    *egress.Dialer
	timeout   time.Duration
	endpoints Endpoints
	pause     func(context.Context, time.Duration) error
	slots     chan struct{}
	transfers sync.WaitGroup
}

// New makes a Renderer.
func New(o Options) *Renderer {
	r := &Renderer{
		dialer: egress.NewDialer(o.Allow), timeout: o.Timeout, endpoints: o.Endpoints,
		pause: sleep, slots: make(chan struct{}, maxAtOnce),
	}
	if r.timeout <= 0 {
		r.timeout = DefaultTimeout
	}
	r.endpoints.GS = cmp.Or(r.endpoints.GS, gsEndpoint)
	return r
}

// Close waits for the transfers of renderings that have ended. The Renderer is not used
// after it.
func (r *Renderer) Close() { r.transfers.Wait() }

// Render returns the config that a machine ends up with which is given a valid config:
// without ignition.config, and with its certificate authorities written into it. A
// config that names no other and no authority is given back as it is. The name is what
// errors call the config.
//
// With a spec version, the machine is one that reads up to this version; without, it
// is one that reads the newest of the config's major. The result is then of the
// highest version among the configs. The error is an *Error.
func (r *Renderer) Render(ctx context.Context, name string, config []byte, spec string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, &Error{Kind: TimedOut, Chain: []string{name}, Message: "other configs are being rendered: ask again"}
	}
	if spec != "" {
		given, err := convert(spec, config)
		if err != nil {
			return nil, withChain([]string{name}, err)
		}
		config = given
	}
	newest := spec
	if newest == "" {
		newest = ignition.VersionOf(config)
		if !ignition.IsExperimental(newest) {
			newest = ignition.NewestOf(newest)
		}
	}
	s := &session{
		fetcher: fetcher{
			dialer: r.dialer, endpoints: r.endpoints, pause: r.pause, transfers: &r.transfers,
			client: clientOf(newest), settings: settings{headers: headerTimeout},
		},
		bundles: map[string][]byte{},
		chain:   []string{name}, sources: []string{""}, configsLeft: MaxConfigs, bytesLeft: maxTotal,
	}
	out, err := s.renderFirst(ctx, config)
	if err == nil && spec != "" {
		out, err = convert(spec, out) // the config that replaces it may be of an older one
	}
	if err != nil {
		return nil, withChain(s.chain, err)
	}
	return out, nil
}

const (
	// headerTimeout is how long a server may take to begin its answer, where no config
	// says otherwise.
	headerTimeout = 10 * time.Second
	// handshakeTimeout bounds the TLS handshake.
	handshakeTimeout = 10 * time.Second
	// maxTimeout bounds what a config sets, in seconds.
	maxTimeout = 3600
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

// settings are how requests are made; a config that is fetched may change them for
// those that are fetched after it.
type settings struct {
	headers, total time.Duration
	proxy          func(*url.URL) (*url.URL, error)
	authorities    *x509.CertPool // nil: the system's
}

// use takes over the settings of a config, as Ignition does at the same points: the
// timeouts and the proxy are the config's, or the defaults; the authorities stay where
// a config has none. They are fetched with the new timeouts and the new proxy.
func (s *session) use(ctx context.Context, f *ignition.Fetching) error {
	s.settings.headers, s.settings.total = headerTimeout, 0
	if f.ResponseHeaders != nil {
		s.settings.headers = seconds(*f.ResponseHeaders)
	}
	if f.Total != nil {
		s.settings.total = seconds(*f.Total)
	}
	proxy := httpproxy.Config{HTTPProxy: f.HTTPProxy, HTTPSProxy: f.HTTPSProxy, NoProxy: strings.Join(f.NoProxy, ",")}
	s.settings.proxy = proxy.ProxyFunc()
	if len(f.Authorities) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return failf(Failed, "the system's certificate authorities cannot be read: %v", err)
	}
	for i := range f.Authorities {
		ref := &f.Authorities[i]
		bundle, err := s.authority(ctx, ref)
		if err != nil {
			return err
		}
		if err := addBundle(pool, bundle); err != "" {
			return failf(Invalid, "%s: the bundle of certificate authorities %s", redact(ref.Source), err)
		}
	}
	s.settings.authorities = pool
	return nil
}

// seconds reads a timeout; what is not above 0 is none.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), maxTimeout)) * time.Second
}

// authority returns a bundle of certificates, which is fetched once.
func (s *session) authority(ctx context.Context, ref *ignition.Reference) ([]byte, error) {
	if bundle, ok := s.bundles[ref.Source]; ok {
		return bundle, nil
	}
	bundle, err := s.fetch(ctx, ref)
	if err != nil {
		return nil, withChain(append(s.chain, redact(ref.Source)), err)
	}
	s.bundles[ref.Source] = bundle
	return bundle, nil
}

// addBundle adds every certificate of a PEM bundle; problem says what is wrong with it.
func addBundle(pool *x509.CertPool, bundle []byte) (problem string) {
	for len(bundle) > 0 {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return "is not PEM from its beginning to its end"
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "holds what is no certificate: " + err.Error()
		}
		pool.AddCert(cert)
		bundle = rest
	}
	return ""
}
