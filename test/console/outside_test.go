package console

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// outside is a proxy for everything but this machine's own addresses: a request that arrives there has left the
// machine, whoever of the tab made it, the page or a worker. It is reported, and answered with 502.
func outside(t *testing.T, w *watcher) (url string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.note("request that left the machine: %s %s", r.Method, r.Host)
		http.Error(rw, "no request leaves the machine", http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}
