package machine

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// Locator is a Resolver that also finds machines by their hardware address.
type Locator interface {
	Resolver
	// AddressesOf returns the addresses whose neighbour entry has a hardware address, lowest
	// first.
	AddressesOf(mac netaddr.MAC) []netip.Addr
}

// Explainer explains decisions.
type Explainer struct {
	decider   *decide.Decider
	resolver  Locator
	ready     func() bool
	overHTTPS bool
}

// Explain returns an Explainer. overHTTPS is true where configs are served over HTTPS alone.
func Explain(decider *decide.Decider, resolver Locator, ready func() bool, overHTTPS bool) *Explainer {
	return &Explainer{decider, resolver, ready, overHTTPS}
}

// ServeHTTP answers GET /api/v1/explain with a decision and its reasons, as JSON. The query is
// that of explain.ParseInquiry: the decision is the one for the machine itself, unless the
// query has as=believed. The caller authorizes the request.
func (e *Explainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "explain is asked with GET", http.StatusMethodNotAllowed)
		return
	}
	inquiry, failure := explain.ParseInquiry(r.URL.RawQuery)
	var answer *explain.Explanation
	if failure == nil {
		answer, failure = e.Answer(r, inquiry)
	}
	if failure != nil {
		http.Error(w, failure.Sentence, failure.Kind.Status())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(answer) // the client may have gone away
}

// Answer answers the inquiry of the sender of a request, whom the caller authorizes. It completes the inquiry.
func (e *Explainer) Answer(r *http.Request, inquiry *explain.Inquiry) (*explain.Explanation, *fault.Error) {
	if !e.ready() {
		return nil, unready
	}
	inquiry.At, inquiry.Sender, inquiry.Gone = time.Now(), e.resolver.Caller(r), r.Context().Done()
	inquiry.Locate = func(addr netip.Addr) identity.Caller { return callerAt(e.resolver, addr) }
	inquiry.AddressesOf = e.resolver.AddressesOf
	answer, failure := explain.Inquire(e.decider, inquiry)
	if failure != nil {
		return nil, failure
	}
	if e.overHTTPS {
		answer.PlainHTTP = plainAnswer(answer)
	}
	return answer, nil
}

// plainAnswer says what the same request receives over plain HTTP where configs are served over HTTPS alone; "": the
// same.
func plainAnswer(e *explain.Explanation) string {
	types := map[string]string{}
	for _, c := range e.Candidates {
		types[c.Config] = c.Type
	}
	given := map[string]bool{} // the types of configs in the answers
	if e.Error == "" && e.Winner != nil {
		given[types[e.Winner.Config]] = true
	}
	for _, o := range e.Others {
		given[types[o.Config]] = true
	}
	var answers []string
	if given[decide.Ignition] {
		answers = append(answers, "a pointer config, which has Ignition ask over HTTPS")
	}
	if given[decide.Kickstart] {
		answers = append(answers, "403 for a kickstart")
	}
	if len(answers) == 0 {
		return ""
	}
	return strings.Join(answers, ", or ") + " (--configs-over-https)"
}

// callerAt returns the sender of a request from an address, with its neighbour entry.
func callerAt(resolver Resolver, addr netip.Addr) identity.Caller {
	return resolver.Caller(&http.Request{RemoteAddr: netip.AddrPortFrom(addr, 0).String()})
}
