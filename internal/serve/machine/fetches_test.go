package machine

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots"
)

// countingJournal counts configs as the server does.
type countingJournal struct {
	*fakeJournal
	tracker *boots.Tracker
}

func (j countingJournal) Fetch(req *decide.Request, host *model.Host, limits model.Limits) (
	notice *decide.Notice, closed string,
) {
	return j.tracker.Fetch(req, host, limits)
}

// TestFetchesAreCounted: the config of a host is served maxFetches times also where the decision did not know of
// the requests before. The second client is an event, and a warning in the log.
func TestFetchesAreCounted(t *testing.T) {
	decision := found(testConfig)
	decision.Limits = model.Limits{MaxFetches: 2}
	r := newRig(t, decision, func(o *Options) {
		o.Journal = countingJournal{o.Journal.(*fakeJournal), boots.New(boots.Options{})}
	})
	for _, c := range []struct {
		from   string
		status int
	}{{"192.0.2.1", 200}, {"192.0.2.2", 200}, {"192.0.2.3", 403}, {"192.0.2.1", 200}} {
		request := httptest.NewRequest(http.MethodGet, PathIgnition, nil)
		request.RemoteAddr = c.from + ":1"
		w := httptest.NewRecorder()
		if r.server.ServeHTTP(w, request); w.Code != c.status || (w.Body.String() == testBody) != (c.status == 200) {
			t.Errorf("%s got %d %s, want %d", c.from, w.Code, w.Body, c.status)
		}
	}
	if got := strings.Join(r.journal.notices, " "); got != "SecondClient WindowClosed" {
		t.Errorf("noticed %q", got)
	}
	isWarned := false
	for line := range strings.Lines(r.logged()) {
		isWarned = isWarned || strings.Contains(line, "client=192.0.2.2") && strings.Contains(line, "level=WARN") &&
			strings.Contains(line, "alarm=SecondClient")
	}
	if !isWarned {
		t.Errorf("no warning of the second client: %s", r.logged())
	}
}
