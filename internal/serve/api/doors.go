package api

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Door is a listener, as far as the rule for callers of the API goes.
type Door struct {
	// NeedsLoopback refuses callers from other machines, whatever credential they
	// bring: plain HTTP, unless --allow-insecure-api. A credential is worth
	// nothing once it has crossed the network in the clear.
	NeedsLoopback bool
	// Admin makes every caller admin without a credential, if it is certainly a
	// program of this machine that acts for itself (--admin-listen). Others get
	// nothing, whatever they bring.
	Admin bool
	// Admitted is true where the user of this connection may use the admin
	// listener; Refusal says why not.
	Admitted bool
	Refusal  string
}

type doorKey struct{}

// WithDoor marks a connection's context. Use it as an http.Server's BaseContext:
// then every request knows the door that it came through, at no cost.
func WithDoor(ctx context.Context, door Door) context.Context {
	return context.WithValue(ctx, doorKey{}, door)
}

// doorOf is the door that a request came through. One that nobody marked needs
// loopback, for it may be plain HTTP.
func doorOf(r *http.Request) Door {
	if door, ok := r.Context().Value(doorKey{}).(Door); ok {
		return door
	}
	return Door{NeedsLoopback: r.TLS == nil}
}

// fromLoopback reports whether the peer is this machine.
func fromLoopback(r *http.Request) bool {
	return isLoopback(r.RemoteAddr)
}

// notForItself says why a request through the admin listener may have been passed
// on by a proxy, or caused by a page in a browser; "" where a program of this
// machine made it for itself: Host names loopback, and no header says that somebody
// else stands behind it. A reverse proxy that sets no such header may speak
// HTTP/1.0, which no client of ours does.
func notForItself(r *http.Request) string {
	if !isLoopbackHost(r.Host) {
		return "its Host is not localhost or a loopback address"
	}
	if !r.ProtoAtLeast(1, 1) {
		return "it is HTTP/1.0, which proxies speak"
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return "a page of another site in a browser caused it"
	}
	for name := range r.Header {
		switch name {
		case "Forwarded", "Via", "Origin", "X-Real-Ip":
			return "it has the header " + name
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return "it has a header X-Forwarded-…, which proxies send"
		}
	}
	return ""
}

// refusal says why a request through the admin listener is refused; "" where it is
// an admin's.
func (d Door) refusal(r *http.Request) string {
	if !d.Admitted {
		return cmp.Or(d.Refusal, "nobody knows which user this connection is of")
	}
	if reason := notForItself(r); reason != "" {
		return "the admin listener serves programs of this machine that act for themselves, not this request: " + reason
	}
	return ""
}

// Guarded makes a handler of the admin listener. What the listener refuses goes to the
// API, whatever it asks for, which answers 401 and leaves a line in the log.
func Guarded(next, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if doorOf(r).refusal(r) != "" {
			api.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether "address:port" is of this machine alone.
func isLoopback(hostport string) bool {
	ap, err := netip.ParseAddrPort(hostport)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// isLoopbackHost reports whether a Host header names this machine: localhost, or a
// loopback address. A page that a browser was tricked into loading from here by
// DNS has its own name there.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
