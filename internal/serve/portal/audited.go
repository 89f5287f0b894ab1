package portal

import (
	"errors"
	"net/http"
	"time"

	"glowplug/internal/audit"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/iscsi"
)

// refused records a login that was refused after its image was found, for a wrong secret say.
func (p *Portal) refused(l iscsi.Login, tag any, cause error) {
	b := tag.(*boot)
	p.record(l, b.host, b.image, cause)
}

// record passes a login to the audit; err is why it was refused.
func (p *Portal) record(l iscsi.Login, host *model.Host, image model.Ref, err error) {
	if p.opts.Audit == nil {
		return
	}
	a := audit.Answer{
		At: time.Now(), Verb: audit.VerbLogin, Path: audit.PathISCSI + l.Target, Agent: l.Initiator,
		From: p.opts.Resolver.Peer(l.Remote).Addr, Status: statusOf(err),
	}
	if err != nil {
		a.Failure = err.Error()
	}
	if host != nil {
		a.Host = audit.Name(host.Ref)
	}
	if image != (model.Ref{}) {
		a.Object = audit.Object{Resource: kinds.ISCSICdroms, Namespace: image.Namespace, Name: image.Name}
	}
	p.opts.Audit(a)
}

// statusOf returns the HTTP status that says the same as the outcome of a login.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, iscsi.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, iscsi.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, iscsi.ErrForbidden):
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

// imageOf returns the image of a decision; the zero value: there is none.
func imageOf(i *decide.ImageDecision) model.Ref {
	if i.Image == nil {
		return model.Ref{}
	}
	return i.Image.Ref
}
