package remote

import (
	"context"
	"sync"
	"time"

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
	// DefaultTimeout is how long rendering may take where nobody says otherwise.
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
	if r.endpoints.GS == "" {
		r.endpoints.GS = gsEndpoint
	}
	return r
}

// Close waits for transfers that nobody waits for any more. The Renderer is not used
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
		out, err = convert(spec, out) // what stands in for the config may be of an older one
	}
	if err != nil {
		return nil, withChain(s.chain, err)
	}
	return out, nil
}
