package machine

import (
	"encoding/json"
	"net/http"
	"net/netip"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
)

// Explainer makes the decision with its trace.
type Explainer interface {
	Explain(req *decide.Request) *decide.Explanation
}

// Explain answers GET /api/v1/explain with a decision and what it was made of,
// as JSON. It takes the query of the serving endpoints, endpoint=kickstart, and
// accept and user-agent, the headers of the client that is asked about.
// Who may ask is for the caller of this handler to see to: all claims are
// believed. A query that names a machine is answered for that machine, and the
// address of whoever asks is left out of its facts.
func Explain(explainer Explainer, resolver Resolver, ready func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "explain is asked with GET", http.StatusMethodNotAllowed)
			return
		}
		claims, failure := identity.ParseClaims(r.URL.RawQuery)
		if failure == nil && !ready() {
			failure = unready
		}
		endpoint := r.URL.Query().Get("endpoint")
		switch endpoint {
		case "":
			endpoint = decide.Ignition
		case decide.Ignition, decide.Kickstart:
		default:
			failure = fault.New(fault.Malformed, "endpoint is ignition or kickstart")
		}
		if failure != nil {
			http.Error(w, failure.Sentence, failure.Kind.Status())
			return
		}
		caller := resolver.Caller(r)
		caller.Believed = true
		if claims.Any() {
			caller = identity.Caller{Addr: netip.Addr{}, Believed: true}
		}
		answer := explainer.Explain(&decide.Request{
			Type: endpoint, Caller: caller, Claims: claims, Gone: r.Context().Done(),
			Accept: r.URL.Query().Get("accept"), UserAgent: r.URL.Query().Get("user-agent"),
		})
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(answer) // the client may have gone away
	})
}
