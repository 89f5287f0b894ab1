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

// streamRig serves the streams "stable" and "a b", and a folder of images.
func streamRig(t *testing.T) (*rig, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	documents := map[string]string{"stable": `{"stream":"stable"}`, "stable old": `{"stream":"stable","old":true}`,
		"a b": `{}`}
	streams := &Streams{
		Document: func(stream, release string) ([]byte, string, bool) {
			text, ok := documents[strings.TrimSpace(stream+" "+release)]
			return []byte(text), "sha256:" + stream + release, ok
		},
		Aliases:   map[string]string{"/pub/openshift-v4/dependencies/rhcos-4.8.json": "stable"},
		Artifacts: root,
	}
	return newRig(t, decide.ConfigDecision{}, func(o *Options) { o.Streams = streams }), dir
}

func TestStreams(t *testing.T) {
	r, _ := streamRig(t)
	const stable = `{"stream":"stable"}`
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/streams/stable.json", 200, stable},
		{"/streams/stable.json?release=old", 200, `{"stream":"stable","old":true}`},
		{"/streams/stable.json?other=1", 200, stable},
		{"/streams/a%20b.json", 200, "{}"},
		{"/pub/openshift-v4/dependencies/rhcos-4.8.json", 200, stable},
		{"/streams/next.json", 404, "there is no stream next\n"},
		{"/streams/stable.json?release=1%0a2", 404, "there is no release 1 2 of stream stable\n"},
		{"/streams/stable.json?release=%zz", 400, "the query is malformed\n"},
		{"/streams/", 404, "there is nothing at this path; want /streams/STREAM.json\n"},
		{"/streams/.json", 404, "there is nothing at this path; want /streams/STREAM.json\n"},
		{"/streams/stable", 404, "there is nothing at this path; want /streams/STREAM.json\n"},
		{"/pub/openshift-v4/", 404, "there is nothing at this path; machines are answered at /api/v1/ignition, " +
			"/api/v1/kickstart, /assets/, /pub/openshift-v4/dependencies/rhcos-4.8.json, /streams/artifacts/, /streams/\n"},
	} {
		status, body, h := r.do(t, http.MethodGet, c.path)
		if status != c.status || body != c.body {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
		headStatus, headBody, headHeader := r.do(t, http.MethodHead, c.path)
		if headStatus != status || headBody != "" || headHeader.Get("Content-Length") != h.Get("Content-Length") ||
			headHeader.Get("Etag") != h.Get("Etag") {
			t.Errorf("HEAD %s: %d %v", c.path, headStatus, headHeader)
		}
		if c.status == 200 && (h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-cache" ||
			!strings.HasPrefix(h.Get("Etag"), `"sha256:`)) {
			t.Errorf("%s: %v", c.path, h)
		}
	}
	if status, body, _ := r.do(t, http.MethodGet, "/streams/stable.json", "If-None-Match",
		`"x", W/"sha256:stable"`); status != 304 || body != "" {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := r.do(t, http.MethodGet, "/streams/stable.json", "If-None-Match",
		`"sha256:stableold"`); status != 200 || body != stable {
		t.Errorf("%d %s", status, body)
	}
	if status, _, h := r.do(t, http.MethodPost, "/streams/stable.json"); status != 405 || h.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d %v", status, h)
	}
	r.ready = false
	if status, _, h := r.do(t, http.MethodGet, "/streams/stable.json"); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, h)
	}
	r.handler.Flush()
	if !strings.Contains(r.log.String(),
		`endpoint=stream method=GET client=127.0.0.1 boots="stream stable" status=200 bytes=19`) {
		t.Error(r.log.String())
	}
	r = newRig(t, decide.ConfigDecision{})
	if status, _, _ := r.do(t, http.MethodGet, "/streams/stable.json"); status != 404 {
		t.Error(status)
	}
}

func TestArtifacts(t *testing.T) {
	r, dir := streamRig(t)
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stable/1/x86_64/metal/a.iso", "0123456789")
	write("stable/1/x86_64/metal/b.iso.part", "half")
	write("stable/1/x86_64/metal/b.iso.part.json", "{}")
	write("stable/1/x86_64/metal/c.sig.new", "half")
	write(".hidden/a", "hidden")
	write("stable/.a", "hidden")
	write("stable.json", "{}")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"out": outside, "in": "stable/1/x86_64/metal/a.iso", "up": "../" +
		filepath.Base(filepath.Dir(outside)) + "/secret"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	const iso = "/streams/artifacts/stable/1/x86_64/metal/a.iso"
	status, body, h := r.do(t, http.MethodGet, iso)
	if status != 200 || body != "0123456789" || h.Get("Etag") == "" || h.Get("Accept-Ranges") != "bytes" ||
		h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %s %v", status, body, h)
	}
	if status, body, got := r.do(t, http.MethodGet, iso, "Range", "bytes=4-", "If-Range", h.Get("Etag")); status != 206 ||
		body != "456789" || got.Get("Content-Range") != "bytes 4-9/10" {
		t.Errorf("%d %s %v", status, body, got)
	}
	if status, body, _ := r.do(t, http.MethodGet, iso, "Range", "bytes=4-", "If-Range", `"old"`); status != 200 ||
		body != "0123456789" {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := r.do(t, http.MethodGet, iso, "Range", "bytes=11-"); status != 416 {
		t.Error(status)
	}
	if status, _, _ := r.do(t, http.MethodGet, iso, "If-None-Match", h.Get("Etag")); status != 304 {
		t.Error(status)
	}
	if status, body, h := r.do(t, http.MethodHead, iso); status != 200 || body != "" || h.Get("Content-Length") != "10" {
		t.Errorf("%d %v", status, h)
	}
	if status, _, h := r.do(t, http.MethodGet, "/streams/artifacts/stable.json"); status != 200 ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", status, h)
	}
	if status, _, _ := r.do(t, http.MethodGet, "/streams/artifacts/in"); status != 200 {
		t.Error("a link inside the folder is not followed:", status)
	}
	for _, path := range []string{"", "stable", "stable/", "stable/1/x86_64/metal/", "none", "out", "up", "pipe",
		".hidden/a", "stable/.a", "../secret", "..%2fsecret",
		"stable/../stable.json", "%2e%2e/secret", "/etc/passwd", "%2fetc%2fpasswd", "stable%00.json",
		"stable/1/x86_64/metal/b.iso.part",
		"stable/1/x86_64/metal/b.iso.part.json", "stable/1/x86_64/metal/c.sig.new", `..\secret`} {
		if status, body, _ := r.do(t, http.MethodGet, "/streams/artifacts/"+path); status != 404 ||
			body != "there is no such image\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	r.server.opts.Streams.Artifacts = nil
	if status, body, _ := r.do(t, http.MethodGet, iso); status != 404 || !strings.Contains(body, "--streams-dir") {
		t.Errorf("%d %s", status, body)
	}
}
