package machine

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"glowplug/internal/domain/decide"
)

// TestAssets: everybody may read the files of the folder, whole or in part, and nothing else.
func TestAssets(t *testing.T) {
	above := t.TempDir()
	dir, outside := filepath.Join(above, "assets"), filepath.Join(above, "secret")
	for path, content := range map[string]string{
		outside: "secret", dir + "-too/a": "secret", dir + "/talos/1.9/vmlinuz": "0123456789", dir + "/a b": "space",
		dir + "/index.html": "<script>", dir + "/talos/index.html": "<script>", dir + "/.hidden": "hidden",
		dir + "/.git/config": "hidden", dir + "/talos/.hidden": "hidden", dir + "/data.json": "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"latest": "talos/1.9", "absolute": outside, "up": "../secret", "folder": above, "proc": "/proc/self/environ",
		"loop": "loop", "sibling": "../assets-too", "twice": "talos/../../secret",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	r := newRig(t, decide.ConfigDecision{}, func(o *Options) {
		o.Assets, o.Ready = root, func() bool { return false } // the folder does not need the store
	})
	const kernel = "/assets/talos/1.9/vmlinuz"
	_, _, whole := r.do(t, http.MethodGet, kernel)
	etag := whole.Get("Etag")
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{http.MethodGet, kernel, nil, 200, "0123456789"},
		{http.MethodHead, kernel, nil, 200, ""},
		{http.MethodGet, "/assets/latest/vmlinuz", nil, 200, "0123456789"},
		{http.MethodGet, "/assets/a%20b", nil, 200, "space"},
		{http.MethodGet, "/assets//latest//vmlinuz/", nil, 200, "0123456789"},
		{http.MethodGet, kernel, []string{"Range", "bytes=4-"}, 206, "456789"},
		{http.MethodGet, kernel, []string{"Range", "bytes=-2", "If-Range", etag}, 206, "89"},
		{http.MethodGet, kernel, []string{"Range", "bytes=4-", "If-Range", `"old"`}, 200, "0123456789"},
		{http.MethodGet, kernel, []string{"Range", "bytes=11-"}, 416, "invalid range: failed to overlap\n"},
		{http.MethodGet, kernel, []string{"If-None-Match", etag}, 304, ""},
		{http.MethodPut, kernel, nil, 405, ""},
		{http.MethodDelete, kernel, nil, 405, ""},
	} {
		status, body, h := r.do(t, c.method, c.path, c.header...)
		if status != c.status || body != c.body && c.status != 405 {
			t.Errorf("%s %s %v: %d %q", c.method, c.path, c.header, status, body)
		}
		if status == 200 && (h.Get("Etag") == "" || h.Get("Accept-Ranges") != "bytes" || h.Get("Content-Length") == "") {
			t.Errorf("%s: %v", c.path, h)
		}
	}
	// A page of the folder must not run in a browser of the server's machine, with the
	// rights of the admin listener.
	for path, want := range map[string]string{"index.html": bytesType, "data.json": jsonType} {
		if _, _, h := r.do(t, http.MethodGet, "/assets/"+path); h.Get("Content-Type") != want ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, path := range []string{
		"", "talos", "talos/", "talos/1.9", "talos/1.9/", "latest", "latest/", "none", "absolute", "up", "folder",
		"folder/secret", "proc", "loop", "sibling/a", "twice", "pipe", ".hidden", ".git/config", "talos/.hidden", "./data.json",
		"../secret", "..%2fsecret", "%2e%2e/secret", "%2e%2e%2fsecret", "talos/../../secret", "talos/../data.json",
		"data.json%00", "data.json%00.txt",
		"%2fetc%2fpasswd", `..\secret`, "..%5csecret", "%c0%ae%c0%ae/secret", "..;/secret", "%252e%252e/secret",
	} {
		if status, body, _ := r.do(t, http.MethodGet, "/assets/"+path); status != 404 ||
			body != "there is no such asset\n" {
			t.Errorf("%q: %d %q", path, status, body)
		}
	}
	r.server.opts.Assets = nil
	if status, body, _ := r.do(t, http.MethodGet, kernel); status != 404 || !strings.Contains(body, "--assets-dir") {
		t.Errorf("%d %s", status, body)
	}
}
