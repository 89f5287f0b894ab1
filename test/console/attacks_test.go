package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// elsewhere serves a page of another site, which has no policy.
func elsewhere(t *testing.T, page string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><html lang="en"><title>elsewhere</title><body>`+page)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestAnotherSiteCannotFrameAPage: clickjacking needs the console in a frame of another site, to which no listener
// answers.
func TestAnotherSiteCannotFrameAPage(t *testing.T) {
	s := start(t)
	for _, page := range []struct{ origin, path, refused string }{
		{s.secure, "/console/sign-in", "status of 403"},
		{s.admin, "/console/", "status of 401"},
	} {
		tab := browser(t, elsewhere(t, `<iframe title="console" src="`+page.origin+page.path+`"></iframe>`))
		tab.trust(page.origin)
		tab.open("/")
		tab.reports(page.refused)
	}
}

// TestAnotherSiteReadsNoChanges: the stream of changes is for the console's own pages, also at the admin listener,
// which asks for no credential.
func TestAnotherSiteReadsNoChanges(t *testing.T) {
	s := start(t)
	tab := browser(t, elsewhere(t, ""))
	tab.trust(s.admin)
	tab.expect("") // the browser reports what it refuses
	tab.open("/")
	got := evaluate[string](tab, fmt.Sprintf(`new Promise(done => {
		const changes = new EventSource(%s)
		changes.onopen = () => done("open")
		changes.onmessage = () => done("message")
		changes.onerror = () => done("refused")
	})`, quote(s.admin+"/console/events/stream")))
	if got != "refused" {
		t.Errorf("the stream is %s", got)
	}
}
