package apiserver

import (
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
	// LoopbackAdmin makes a caller admin without a credential where it is
	// certainly a program of this machine (--loopback-admin).
	LoopbackAdmin bool
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

// fromLoopback tells whether the peer is this machine.
func fromLoopback(r *http.Request) bool {
	return isLoopback(r.RemoteAddr)
}

// isLoopbackProgram tells whether a request was certainly made by a program on
// this machine for itself, and neither passed on by a proxy nor caused by a page
// in a browser: peer and local address are loopback, Host names loopback, and no
// header says that somebody else stands behind it. A reverse proxy that sets no
// such header speaks HTTP/1.0 as nginx does by default, which no client of ours
// does.
func isLoopbackProgram(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(local.String()) || !fromLoopback(r) || !isLoopbackHost(r.Host) || !r.ProtoAtLeast(1, 1) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	for name := range r.Header {
		switch name {
		case "Forwarded", "Via", "Origin", "X-Real-Ip":
			return false
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	return true
}

// isLoopback tells whether "address:port" is of this machine alone.
func isLoopback(hostport string) bool {
	ap, err := netip.ParseAddrPort(hostport)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// isLoopbackHost tells whether a Host header names this machine: localhost, or a
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
