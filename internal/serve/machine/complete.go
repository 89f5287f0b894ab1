package machine

import (
	"net/http"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
)

// notDurable is the answer where the state is recorded and may still be lost.
const notDurable = "that this machine is provisioned could not be stored yet; say it again in a moment"

// serveComplete answers PathComplete: the machine reports that it is provisioned. After a
// 200 this is durable.
func (s bootPath) serveComplete(w *response, r *http.Request, req *request) result {
	if failure := s.readClaims(r, req); failure != nil {
		return w.fail(result{}, failure)
	}
	b := s.opts.Boot.Booter.Boot(&req.Request)
	s.record(req, &b.Identity)
	res := result{ConfigDecision: decide.ConfigDecision{Identity: b.Identity}}
	switch {
	case b.Err != nil && (b.Err.Kind == fault.Refused || b.Err == decide.ClaimsLimited):
		return w.fail(res, b.Err)
	case b.Host == nil:
		return w.fail(res, fault.New(fault.NoMatch, "this machine is no known host; create a BareMetalHost with its address"))
	}
	if s.opts.Journal != nil {
		if err := s.opts.Journal.Complete(r.Context(), b.Host); err != nil {
			return w.fail(res, &fault.Error{Kind: fault.Unavailable, Sentence: notDurable, Cause: err})
		}
	}
	w.sentence(http.StatusOK, "host "+b.Host.Ref.String()+" is provisioned")
	return res
}
