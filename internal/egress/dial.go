package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
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

// RefusedError says that a place may not be fetched from, and what allows it.
type RefusedError struct{ what, reason string }

func (e *RefusedError) Error() string { return e.what + " " + e.reason }

// Redirected is the same of a place that a server redirects to, without its name: who
// writes a URL need not be one who may read what the server answers.
func (e *RefusedError) Redirected() *RefusedError {
	return &RefusedError{"what it redirects to", e.reason}
}

// Plain says in a few words why a request failed. It has nothing in it of what a server
// sent, nor any name or address, except a *RefusedError's: the error of a library may
// quote the first line of an answer, a redirect, the names in a certificate or the
// address of a name server.
func Plain(err error) string {
	var (
		refused *RefusedError
		dns     *net.DNSError
		invalid x509.CertificateInvalidError
		number  syscall.Errno
		timeout net.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host of the URL does not exist"
	case errors.As(err, &dns):
		return "the host name of the URL cannot be resolved"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, new(x509.HostnameError)):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet"
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS"
	case errors.As(err, new(tls.AlertError)):
		return "the TLS handshake failed"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "there was no answer in time"
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the server hung up"
	}
	return "its answer cannot be read"
}
