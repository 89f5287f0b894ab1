package egress

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	// connectTimeout bounds one try to connect to one address, maxAddresses the
	// addresses of a host that are tried.
	connectTimeout = 10 * time.Second
	maxAddresses   = 8
)

// Dialer connects to what a policy allows. It resolves a name itself and connects to
// the very address that it has checked, so that a name server which answers otherwise
// a moment later changes nothing.
type Dialer struct {
	Policy Policy
	// Lookup resolves a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect opens a connection to an address and port that has been checked.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewDialer makes one that asks the system's name servers.
func NewDialer(policy Policy) *Dialer {
	resolver := &net.Resolver{PreferGo: true}
	return &Dialer{
		Policy: policy,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return resolver.LookupNetIP(ctx, "ip", host)
		},
		Connect: (&net.Dialer{Timeout: connectTimeout}).DialContext,
	}
}

// Resolve returns the addresses of a host that may be connected to. It is a *RefusedError
// where there are addresses and none of them may.
func (d *Dialer) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused := d.Policy.check(host, addr); refused != nil {
			return nil, refused
		}
		return []netip.Addr{addr.Unmap()}, nil
	}
	if !d.Policy.resolves(host) {
		return nil, d.Policy.unlisted(host)
	}
	all, err := d.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	reason := &RefusedError{host, "has no address"}
	for _, addr := range all {
		if refused := d.Policy.check(host, addr); refused != nil {
			reason = refused
		} else {
			addrs = append(addrs, addr.Unmap())
		}
	}
	if len(addrs) == 0 {
		return nil, reason
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// Dial is for http.Transport.DialContext. The error is that of the first address.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := d.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var first error
	for _, addr := range addrs {
		conn, err := d.Connect(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// OnBehalf says in every request, after redirects too, that somebody else stands
// behind it: a server which trusts programs of its own machine must not take this one
// for its operator.
func OnBehalf(t http.RoundTripper) http.RoundTripper { return onBehalf{t} }

type onBehalf struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t onBehalf) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("Via", "1.1 glowplug")
	return t.RoundTripper.RoundTrip(out)
}
