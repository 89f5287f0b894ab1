package listener

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFromNoOtherSite: whatever a page of another site sends is refused, and only what a browser opens as a page of
// its own is not.
func TestFromNoOtherSite(t *testing.T) {
	const foreign, navigate, document = "https://evil.example", "navigate", "document"
	for name, c := range map[string]struct {
		method  string
		header  map[string]string
		refused bool
	}{
		"a program":              {"GET", nil, false},
		"a program that writes":  {"POST", nil, false},
		"a page of this server":  {"POST", map[string]string{"Origin": "https://glowplug:8443"}, false},
		"a page opened by hand":  {"GET", map[string]string{"Sec-Fetch-Site": "none"}, false},
		"a form":                 {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": navigate, "Sec-Fetch-Dest": document}, true},
		"a link":                 {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": navigate, "Sec-Fetch-Dest": document}, false},
		"a frame":                {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": navigate, "Sec-Fetch-Dest": "iframe"}, true},
		"an image":               {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, true},
		"a page of another name": {"GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, true},
		"another port":           {"GET", map[string]string{"Origin": "http://glowplug:8082"}, true},
		"a WebSocket":            {"GET", map[string]string{"Origin": foreign, "Upgrade": "websocket"}, true},
		"a WebSocket of HTTP/2":  {"CONNECT", map[string]string{"Origin": foreign}, true},
		"no site":                {"GET", map[string]string{"Origin": "null"}, true},
		"an upgrade of a link": {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": navigate,
			"Sec-Fetch-Dest": document, "Upgrade": "websocket"}, true},
		"a page of plain HTTP":        {"POST", map[string]string{"Origin": "http://glowplug:8443"}, false},
		"a page of plain HTTP at TLS": {"POST", map[string]string{"Origin": "HTTP://glowplug:8443"}, true},
		"a WebSocket of plain HTTP at TLS": {"GET", map[string]string{"Origin": "http://glowplug:8443",
			"Upgrade": "websocket"}, true},
		"a WebSocket of this server at TLS": {"GET", map[string]string{"Origin": "https://glowplug:8443",
			"Upgrade": "websocket"}, false},
		"a program at TLS": {"GET", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			answers := func(status int) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			}
			r := httptest.NewRequest(c.method, "/api/v1/secrets", http.NoBody)
			if strings.HasSuffix(name, " at TLS") {
				r.TLS = &tls.ConnectionState{}
			}
			r.Host = "glowplug:8443"
			for key, value := range c.header {
				r.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			FromNoOtherSite(answers(http.StatusOK), answers(http.StatusForbidden)).ServeHTTP(w, r)
			if refused := w.Code == http.StatusForbidden; refused != c.refused {
				t.Errorf("refused: %t, want %t", refused, c.refused)
			}
		})
	}
}
