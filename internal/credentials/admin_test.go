package credentials

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/logs/logstest"
)

// TestRotatedAdminToken: a running server accepts the new token within seconds, and refuses the former
// one, which the next start does as well. The rest of admin.kubeconfig stays.
func TestRotatedAdminToken(t *testing.T) {
	dir := t.TempDir()
	log, logged := logstest.Logger()
	c := ensure(t, Options{DataDir: dir, Server: "https://127.0.0.1:8443", Logger: log})
	path := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(c.KubeconfigPath(), path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, c.KubeconfigPath()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(content, "# of the rack\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, followed := make(chan struct{}, 8), make(chan struct{})
	go func() { defer close(followed); c.FollowAdmin(ctx, func() { changed <- struct{}{} }) }()
	defer func() { cancel(); <-followed }()
	former := tokenIn(t, c)
	if got, err := RotateAdmin(dir); err != nil || got != path {
		t.Fatal(got, err)
	}
	token := tokenIn(t, c)
	if token == former || len(token) != len(former) {
		t.Fatalf("the token is %q, and was %q", token, former)
	}
	// Where the server has begun to follow the file after the rotation, nothing has changed since.
	for deadline := time.Now().Add(time.Minute); !c.IsAdminToken(token); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a running server does not accept the new token", logged())
		}
	}
	if !c.IsAdminToken(token) || c.IsAdminToken(former) {
		t.Errorf("new %t, former %t", c.IsAdminToken(token), c.IsAdminToken(former))
	}
	hash := hex.EncodeToString(c.token.Load()[:])
	if next, _, err := c.Merge("s1", nil); err != nil || !strings.Contains(string(next), hash) {
		t.Errorf("the other servers are not told: %s %v", next, err)
	}
	again := ensure(t, Options{DataDir: dir, Server: "https://127.0.0.1:8443"})
	if !again.IsAdminToken(token) || again.IsAdminToken(former) || tokenIn(t, again) != token {
		t.Error("a restart has another token")
	}
	after, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(after), "# of the rack\n") {
		t.Errorf("%s %v", after, err)
	}
	if strings.Contains(logged(), token) || strings.Contains(logged(), former) {
		t.Error("a token is in the log")
	}
}

// TestInterruptedRotation: a rotation that ends between its two files leaves the former token valid for
// the running server, and the next start makes a new one.
func TestInterruptedRotation(t *testing.T) {
	dir := t.TempDir()
	c := ensure(t, Options{DataDir: dir, Server: "https://127.0.0.1:8443"})
	former := tokenIn(t, c)
	hash, err := os.ReadFile(c.path(tokenHash))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RotateAdmin(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path(tokenHash), hash, 0o600); err != nil {
		t.Fatal(err)
	}
	if !c.IsAdminToken(former) {
		t.Error("the running server refuses the token that it knows")
	}
	again := ensure(t, Options{DataDir: dir, Server: "https://127.0.0.1:8443"})
	if !again.IsAdminToken(tokenIn(t, again)) {
		t.Error("admin.kubeconfig has a token that the server refuses")
	}
}

// TestRotateAdminOfNoServer: nothing is written where there is no server's data.
func TestRotateAdminOfNoServer(t *testing.T) {
	dir := t.TempDir()
	if _, err := RotateAdmin(dir); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
	ensure(t, Options{DataDir: dir, Server: "https://127.0.0.1:8443"})
	path := filepath.Join(dir, Kubeconfig)
	for _, content := range []string{"{", "users: []\n", "users: [{name: admin, user: {}}]\n",
		"users: [{name: other, user: {token: of-another-cluster}}]\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := RotateAdmin(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
