package api

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Listener has the rules of a listener for callers of the API.
type Listener struct {
	// NeedsLoopback refuses callers from other machines, with any credential: plain HTTP,
	// unless --allow-insecure-api. A credential that has crossed the network in the clear
	// proves nothing.
	NeedsLoopback bool
	// Admin makes a caller admin without a credential if it is a program of this machine
	// that acts for itself (--admin-listen), and refuses all others.
	Admin bool
	// Admitted is true if the user of this connection may use the admin listener; Refusal
	// is the reason if not.
	Admitted bool
	Refusal  string
}

type listenerKey struct{}

// WithListener adds a listener to a context. Use it in BaseContext of an http.Server.
func WithListener(ctx context.Context, listener Listener) context.Context {
	return context.WithValue(ctx, listenerKey{}, listener)
}

// IsAdmin reports whether a request has come through the admin listener.
func IsAdmin(r *http.Request) bool { return listenerOf(r).Admin }

// listenerOf returns the listener of a request. A request without a listener needs loopback unless it
// has TLS.
func listenerOf(r *http.Request) Listener {
	if listener, ok := r.Context().Value(listenerKey{}).(Listener); ok {
		return listener
	}
	return Listener{NeedsLoopback: r.TLS == nil}
}

// notForItself returns why a request through the admin listener may come from a proxy or
// from a page in a browser, and "" if a program of this machine acts for itself. A reverse
// proxy that sets none of the headers may speak HTTP/1.0, which no client of ours does.
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
	for name, values := range r.Header {
		switch name {
		case "Origin":
			if isOfConsole(r) && len(values) == 1 && values[0] == "http://"+r.Host {
				continue
			}
			return "it has the header Origin, and is not from the console of this listener"
		case "Forwarded", "Via", "X-Real-Ip":
			return "it has the header " + name
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return "it has a header X-Forwarded-…, which proxies send"
		}
	}
	return ""
}

// isOfConsole reports whether a request is for a page of the console, of which browsers send the Origin.
func isOfConsole(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/console/") }

// refusal returns why a request through the admin listener is refused, and "" for a
// request of an admin.
func (d Listener) refusal(r *http.Request) string {
	if !d.Admitted {
		return cmp.Or(d.Refusal, "nobody knows which user this connection is of")
	}
	if reason := notForItself(r); reason != "" {
		return "the admin listener serves programs of this machine that act for themselves, not this request: " + reason
	}
	return ""
}

// Guarded returns a handler for the admin listener. It passes refused requests to the API,
// which answers 401 and writes a log line.
func Guarded(next, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if listenerOf(r).refusal(r) != "" {
			api.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether the address in "address:port" is a loopback address.
func isLoopback(hostport string) bool {
	ap, err := netip.ParseAddrPort(hostport)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// isLoopbackHost reports whether a Host header is localhost or a loopback address. A page
// of another site whose name resolves to this machine has its own name there.
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
