package api

import (
	"context"
	"net/http"
	"net/netip"

	"k8s.io/apiserver/pkg/audit"
)

// Audit records requests.
type Audit interface {
	Policy() audit.PolicyRuleEvaluator
	// Sink returns the sink of the events of a request from an address.
	Sink(from netip.Addr) audit.Sink
}

// auditFilter is a filter of the library. Without a sink it records nothing.
type auditFilter func(h http.Handler, sink audit.Sink, policy audit.PolicyRuleEvaluator) http.Handler

// withAudit applies a filter of the library to each request, with a sink that knows the address
// of its sender: the filter itself would believe every X-Forwarded-For. The server's own requests
// are not recorded; a user with the same name is none of them.
func withAudit(trail Audit, resolver Resolver, h http.Handler, filter auditFilter) http.Handler {
	plain := filter(h, nil, nil)
	if trail == nil {
		return plain
	}
	policy := trail.Policy()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isInternal(r.Context()) {
			plain.ServeHTTP(w, r)
			return
		}
		sink := trail.Sink(resolver.Caller(r).Addr)
		filter(h, sink, policy).ServeHTTP(w, r)
	})
}

// unaudited hides the audit event of the request that a dry run is made for: its authorization would
// be recorded in that event.
type unaudited struct{ context.Context }

func (c unaudited) Value(key any) any {
	value := c.Context.Value(key)
	if _, ok := value.(*audit.AuditContext); ok {
		return nil
	}
	return value
}
