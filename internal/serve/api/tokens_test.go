package api

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/logs/logstest"
)

func writeTokens(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	writeTokens(t, file, "secret,jo,u1,\"ops,dev\"\n")
	tokens, err := openTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	who := caller{peer: "192.0.2.9:1", proto: 1, header: http.Header{"Authorization": {"Bearer secret"}},
		tls: &tls.ConnectionState{}}
	response, ok, err := newGuard(nil, nil, tokens).AuthenticateRequest(who.request(nil))
	if err != nil || !ok || response.User.GetName() != "jo" || len(response.User.GetGroups()) != 3 {
		t.Errorf("%v %v %v", response, ok, err)
	}
	for content, want := range map[string]string{
		"ok,jo,1\nsecret,jo\n":             "line 2 has 2 columns",
		",jo,1\n":                          "line 1 has an empty token",
		"secret,jo,1\nsecret,kim,2\n":      "line 2 has a token that stands above it",
		"ok,jo,1\nsecret,\"jo,1\nx,y,z\n":  "line",
		"ok,jo,1\nsecret,jo \"the\" x,1\n": "line 2",
	} {
		writeTokens(t, file, content)
		_, err := openTokens(file, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := openTokens(file+"x", nil); err == nil || !strings.Contains(err.Error(), file+"x") {
		t.Errorf("%v", err)
	}
}

// TestTokenFileIsReadAgain: a token that is taken out of the file stops working within
// seconds, for watches that are open as well, and nobody else notices. A file that is
// no good, or is gone, changes nothing.
func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	writeTokens(t, file, "token-jo,jo,1\ntoken-kim,kim,2\n")
	log, logged := logstest.Logger()
	a := startOn(t, newStores(t), Listener{}, func(opts *Options) { opts.TokenFile, opts.Logger = file, log })
	send := func(token, path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	status := func(token string) int {
		t.Helper()
		resp := send(token, "/api/v1")
		resp.Body.Close()
		return resp.StatusCode
	}
	await := func(what string, condition func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("still not: %s\n%s", what, logged())
			}
		}
	}
	watch := func(token string) <-chan struct{} {
		t.Helper()
		resp := send(token, configs+"?watch=true")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a watch with %s: %s", token, resp.Status)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
		return ended
	}
	for _, name := range []string{"jo", "kim"} {
		a.bind("view", name, "Authorization", "Bearer admin-token")
	}
	jo, kim, admin := watch("token-jo"), watch("token-kim"), watch("admin-token")
	if status("token-lee") != http.StatusUnauthorized {
		t.Error("a token that nobody has given is taken")
	}

	writeTokens(t, file, "token-kim,kim,2\ntoken-lee,lee,3\n")
	await("a new token works", func() bool { return status("token-lee") == http.StatusOK })
	if got := status("token-jo"); got != http.StatusUnauthorized {
		t.Errorf("a token that was taken away: %d", got)
	}
	select {
	case <-jo:
	case <-time.After(time.Minute):
		t.Error("the watch of a token that was taken away goes on")
	}

	writeTokens(t, file, "nonsense\n")
	await("the log says that the file is no good", func() bool {
		return strings.Contains(logged(),
			"line 1 has 1 columns")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	await("the log says that the file is gone", func() bool { return strings.Contains(logged(), "no such file") })
	if status("token-kim") != http.StatusOK || status("token-lee") != http.StatusOK {
		t.Error("a file that is no good takes tokens away")
	}
	select {
	case <-kim:
		t.Error("the watch of a token that stays has ended")
	case <-admin:
		t.Error("the admin's watch has ended")
	default:
	}
	if strings.Contains(logged(), "token-") {
		t.Errorf("a token is logged:\n%s", logged())
	}
}
