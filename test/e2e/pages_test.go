package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"testing"
)

// TestPagesOfOtherSitesReadNothing: a page of another site cannot read a Secret over a WebSocket, whose answers a
// browser shows to every page, nor by the other ways in which a browser reads a stream. A bearer token stands for
// the client certificate, which a browser sends by itself.
func TestPagesOfOtherSitesReadNothing(t *testing.T) {
	needs(t)
	metrics := net.JoinHostPort("127.0.0.1", freePort(t))
	s := start(t, "--metrics-listen", metrics)
	created := request(t, http.MethodPost, s.admin("/api/v1/namespaces/rack/secrets"), `{"apiVersion":"v1",
"kind":"Secret","metadata":{"name":"root"},"stringData":{"password":"open-sesame"}}`, "Content-Type", "application/json")
	if created.status != 201 {
		t.Fatalf("creating the Secret: %d %s", created.status, created.body)
	}
	const watch = "/api/v1/secrets?watch=true"
	bearer := []string{"Authorization", "Bearer " + adminToken(t, s)}
	foreign, own := []string{"Origin", "https://evil.example"}, []string{"Origin", s.url("")}
	webSocket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	stream := []string{"Accept", "application/json;stream=watch"}
	for name, way := range map[string]struct {
		header []string
		want   int
	}{
		"WebSocket":               {slices.Concat(webSocket, foreign), 403},
		"WebSocket of no site":    {slices.Concat(webSocket, []string{"Origin", "null"}), 403},
		"WebSocket with metadata": {slices.Concat(webSocket, []string{"Sec-Fetch-Site", "cross-site"}), 403},
		"WebSocket of no origin":  {webSocket, 403}, // the Kubernetes library wants one
		"WebSocket of a page":     {slices.Concat(webSocket, own), 101},
		"EventSource":             {slices.Concat([]string{"Accept", "text/event-stream"}, foreign), 403},
		"stream":                  {slices.Concat(stream, foreign), 403},
		"stream of a program":     {stream, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if status := statusAt(t, s.url(watch), slices.Concat(bearer, way.header)...); status != way.want {
				t.Errorf("%d, want %d", status, way.want)
			}
		})
	}
	for url, want := range map[string]int{
		"https://" + net.JoinHostPort(s.host, s.tls) + watch: 403,
		s.url("/readyz"):                 403,
		s.url("/api/v1/ignition"):        403,
		"http://" + metrics + "/metrics": 403,
		s.admin(watch):                   401,
	} {
		if status := statusAt(t, url, slices.Concat(bearer, webSocket, foreign)...); status != want {
			t.Errorf("%s: %d, want %d", url, status, want)
		}
	}
}

// statusAt returns the status of an answer, which may have no end.
func statusAt(t *testing.T, url string, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
