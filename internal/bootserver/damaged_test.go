package bootserver

import (
	"net/http/httptest"
	"testing"

	"glowplug/internal/boot"
	"glowplug/internal/fault"
	"glowplug/internal/identity"
	"glowplug/internal/match"
)

// TestDamagedStore: while an object cannot be read, a machine that may be the one
// it was for is told to come again; one that is found its own is served.
func TestDamagedStore(t *testing.T) {
	for name, c := range map[string]struct {
		decision boot.Decision
		status   int
	}{
		"nothing matches":         {failing(fault.NoMatch, "no config matches"), 503},
		"only a config for all":   {boot.Decision{Config: testConfig, Tier: match.Default}, 503},
		"its own config":          {boot.Decision{Config: testConfig, Tier: match.MAC}, 200},
		"a claim that is refused": {failing(fault.Refused, "no"), 403},
	} {
		for _, isDamaged := range []bool{true, false} {
			s := New(Options{
				Decider:  &fakeDecider{decision: c.decision},
				Resolver: identity.NewResolver(identity.ResolverOptions{Neighbors: identity.NeighborsOff}),
				Damaged:  func() bool { return isDamaged },
			})
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", PathIgnition, nil))
			if retry := w.Header().Get("Retry-After"); isDamaged && (w.Code != c.status || (retry != "") != (c.status == 503)) {
				t.Errorf("%s, damaged: %d, Retry-After %q", name, w.Code, retry)
			}
			if !isDamaged && w.Code == 503 {
				t.Errorf("%s, intact: %d", name, w.Code)
			}
		}
	}
}
