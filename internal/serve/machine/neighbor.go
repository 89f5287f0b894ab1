package machine

import (
	"errors"
	"net/http"

	"glowplug/internal/domain/decide"
)

// errChanged is why an answer ends before its last byte.
var errChanged = errors.New("the hardware address behind the client's changed while it was answered")

// send writes the whole body of an answer. What goes out in one piece is held against
// the neighbour table right before, and what takes longer once more before its last
// byte: a client that was another machine for the length of a request has no use for
// the rest.
func (s *Server) send(w http.ResponseWriter, r *http.Request, x *exchange, body []byte) {
	if len(body) > maxGathered {
		if x.bytes, x.broken = w.Write(body[:len(body)-1]); x.broken != nil {
			return
		}
	}
	if s.unchanged(r, x) {
		var n int
		n, x.broken = w.Write(body[x.bytes:])
		x.bytes += n
	}
}

// unchanged reports whether what is left of an answer may go out: always, but where
// the neighbour entry of a host's machine is another than it was when the answer was
// decided, or has been meanwhile, and that is enforced. A change is an event.
func (s *Server) unchanged(r *http.Request, x *exchange) bool {
	then := &x.request.Caller
	if x.decision.Host == nil || then.MAC == zeroMAC || then.Believed {
		return true
	}
	now := s.opts.Resolver.Caller(r)
	flipped := now.Former != zeroMAC && now.Former != then.Former
	if now.MAC == zeroMAC || now.MAC == then.MAC && !flipped {
		return true
	}
	former := then.MAC
	if flipped {
		former = now.Former
	}
	s.noticed(x, decide.NeighborChanged(x.decision.Host, now.Addr, now.MAC, former))
	then.MAC, then.Former = now.MAC, former
	if x.cut = s.opts.Enforce; x.cut {
		x.broken = errChanged
	}
	return !x.cut
}
