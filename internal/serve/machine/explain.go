package machine

import (
	"cmp"
	"encoding/json"
	"net/http"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
)

// Explain answers GET /api/v1/explain with a decision and its facts, as JSON. The query is
// that of the serving endpoints, with endpoint=kickstart, and with accept and user-agent,
// the headers of the client in question. All claims are believed: the caller of this
// handler authorizes the request. A query that names a machine is answered for that
// machine, without the address of the sender.
func Explain(decider *decide.Decider, resolver Resolver, ready func() bool) http.Handler {
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
		endpoint := cmp.Or(r.URL.Query().Get("endpoint"), decide.Ignition)
		if endpoint != decide.Ignition && endpoint != decide.Kickstart {
			failure = fault.New(fault.Malformed, "endpoint is ignition or kickstart")
		}
		if failure != nil {
			http.Error(w, failure.Sentence, failure.Kind.Status())
			return
		}
		caller := resolver.Caller(r)
		caller.Believed = true
		if claims.Any() {
			caller = identity.Caller{Believed: true}
		}
		answer := decider.Explain(&decide.Request{
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
