package decide

import (
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// IssueToken returns the progress of a host whose machine is about to receive the script that boots its
// image, again in the same boot or not. Window.Token of it is the time of issue of the token in that
// script: a new one where a boot begins, and otherwise that of the present boot.
func IssueToken(h *model.Host, p model.Progress, again bool, at time.Time) model.Progress {
	w := windowOf(h, &p)
	if !w.Token.IsZero() && !beginsBoot(p, scriptStep(again), at) {
		return p
	}
	issued := at.Truncate(time.Second)
	if !issued.After(w.Token) { // a clock that was set back, or two boots within a second
		issued = w.Token.Add(time.Second)
	}
	next := w // a repeated script allocates nothing
	next.Token = issued
	p.Window = &next
	return p
}

// refuseToken returns an error where the host needs the token of its boot, and the request does not have
// it. A token that is newer than what is known of the host was issued by another server.
func refuseToken(q *question, limits model.Limits, p *model.Progress) *fault.Error {
	h := q.dec.Host
	if !limits.Token || q.decider.opts.Tokens == nil || q.req.Explains && hasToken(q.view, h, p) {
		return nil
	}
	issued, ok := q.decider.opts.Tokens.Issued(h.UID, q.req.Claims.Token)
	reason := "has the token of an earlier boot"
	switch {
	case ok && (p.Window == nil || !issued.Before(p.Window.Token)):
		return nil
	case q.req.Claims.Token == "":
		reason = "has no token"
	case !ok:
		reason = "has a token that is not one of this host"
	}
	q.notice(ReasonTokenRefused, h, q.who()+reason, "a request from "+q.who()+" was refused: it "+reason)
	return fault.New(fault.Refused, "host "+h.Ref.String()+" is served with the token of its boot alone, and this "+
		"request "+reason+"; the script that boots its image has the token (/boot.ipxe)")
}

// hasToken reports whether the machine of a host has the token of its boot, or gets it at its next one.
func hasToken(view model.View, h *model.Host, p *model.Progress) bool {
	if !view.HasScript(h) {
		return false
	}
	armed, _ := Armed(h, *p)
	return armed || p.State == v1.StateProvisioning
}
