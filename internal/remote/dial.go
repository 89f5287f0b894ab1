package remote

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// connectTimeout bounds one try to connect to one address.
const connectTimeout = 10 * time.Second

// dialer connects to what the list allows. It resolves a name itself and connects to
// the very address that it has checked, so that a name server which answers otherwise
// a moment later changes nothing.
type dialer struct {
	allow  Allow
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// connect opens a connection to an address and port that has been checked.
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer(allow Allow) *dialer {
	resolver := &net.Resolver{PreferGo: true}
	return &dialer{
		allow: allow,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return resolver.LookupNetIP(ctx, "ip", host)
		},
		connect: (&net.Dialer{Timeout: connectTimeout}).DialContext,
	}
}

// resolve gives the addresses of a host that may be connected to. The error is final
// where there are addresses and none of them may.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused := d.allow.check(host, addr); refused != "" {
			return nil, finalError{failf(Refused, "%s", refused)}
		}
		return []netip.Addr{addr.Unmap()}, nil
	}
	if !d.allow.resolves(host) {
		return nil, finalError{failf(Refused, "%s", unlisted(host))}
	}
	all, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	reason := "its name has no address"
	for _, addr := range all {
		refused := d.allow.check(host, addr)
		if refused == "" {
			addrs = append(addrs, addr.Unmap())
			continue
		}
		reason = refused
	}
	if len(addrs) == 0 {
		return nil, finalError{failf(Refused, "%s", reason)}
	}
	return addrs, nil
}

// dial is for http.Transport.DialContext.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, addr := range addrs {
		conn, err := d.connect(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}
