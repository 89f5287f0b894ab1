package e2e

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// TestRequestsOfOneSourceAreBounded: a source that sends requests as fast as it can is refused after those that it
// may send, with a status that machines and kubectl retry; other sources, and its own requests of the other class,
// are answered.
func TestRequestsOfOneSourceAreBounded(t *testing.T) {
	s := start(t, "--max-requests-per-source", "10")
	s.kubectl(provisioningObjects, "apply", "-f", "-")
	clientAt := func(address string) *http.Client {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		anyCA := &tls.Config{InsecureSkipVerify: true}
		transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: anyCA}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: 10 * time.Second}
	}
	ask := func(client *http.Client, url string) (status int, header http.Header, body string) {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(content)
	}
	api := "https://" + net.JoinHostPort("127.0.0.1", s.tls) + "/api/v1/baremetalhosts"
	for _, c := range []struct {
		name, flooder, url, text string
		status, refused          int
		own                      string // of the other class
		ownStatus                int
	}{
		{"boots", "127.0.0.11", s.url("/api/v1/ignition"), "too many requests a second come from your", 200, 503,
			api, 401},
		{"the API", "127.0.0.12", api, `"reason":"TooManyRequests"`, 401, 429, s.url("/api/v1/ignition"), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			flooder, answered, refused := clientAt(c.flooder), 0, 0
			for range 60 {
				switch status, header, body := ask(flooder, c.url); {
				case status == c.status:
					answered++
				case status == c.refused && header.Get("Retry-After") != "" && strings.Contains(body, c.text):
					refused++
				default:
					t.Errorf("%d %v %s", status, header, body)
				}
			}
			if answered < 20 || refused == 0 {
				t.Errorf("%d requests were answered and %d refused, want 20 and more, and the rest", answered, refused)
			}
			if status, _, body := ask(flooder, c.own); status != c.ownStatus {
				t.Errorf("its requests of the other class: %d %s", status, body)
			}
			if status, _, body := ask(flooder, s.url("/livez")); status != 200 {
				t.Errorf("health for it: %d %s", status, body)
			}
			if status, _, body := ask(clientAt("127.0.0.33"), c.url); status != c.status && status != 404 {
				t.Errorf("another source: %d %s", status, body)
			}
		})
	}
	metrics := get(t, s.admin("/metrics")).body
	for _, name := range []string{"boots", "others"} {
		if !strings.Contains(metrics, `glowplug_http_requests_limited_total{of="`+name+`"} `) ||
			strings.Contains(metrics, `glowplug_http_requests_limited_total{of="`+name+`"} 0`) {
			t.Errorf("the refused requests of %s are not counted", name)
		}
	}
	const line = "its source sends too many"
	testkit.Until(t, "the log says so", func() bool { return strings.Contains(s.log.String(), line) })
	if n := strings.Count(s.log.String(), line); n > 20 {
		t.Errorf("the log has %d lines", n)
	}
}
