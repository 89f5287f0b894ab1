package machine

import (
	"errors"
	"net/http"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// errChanged is why an answer ends before its last byte.
var errChanged = errors.New("the hardware address behind the client's changed while it was answered")

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// neighborCheck compares the neighbour entry of a host's machine with the one at the time
// of the decision.
type neighborCheck struct {
	server  *Server
	request *http.Request
	caller  *identity.Caller
	host    *snapshot.Host
	// changed is true once the entry has changed.
	changed bool
}

// checkNeighbor makes the answer end where the neighbour entry of a host's machine
// changes, if host and entry are known.
func (s *Server) checkNeighbor(w *response, r *http.Request, req *request, host *snapshot.Host) {
	if host != nil && req.Caller.MAC != zeroMAC && !req.Caller.Believed {
		w.neighbor = &neighborCheck{server: s, request: r, caller: &req.Caller, host: host}
	}
}

// unchanged reports whether the rest of an answer may be sent: unless the entry is another
// one now, or was meanwhile, and that is enforced. A change is an event.
func (c *neighborCheck) unchanged() bool {
	if c == nil {
		return true
	}
	then, now := c.caller, c.server.opts.Resolver.Caller(c.request)
	flipped := now.Former != zeroMAC && now.Former != then.Former
	if now.MAC == zeroMAC || now.MAC == then.MAC && !flipped {
		return true
	}
	former := then.MAC
	if flipped {
		former = now.Former
	}
	c.server.notify(decide.NeighborChanged(c.host, now.Addr, now.MAC, former))
	then.MAC, then.Former, c.changed = now.MAC, former, true
	return !c.server.opts.Enforce
}
