package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestStory is the specification's story with the examples: two machines, three
// configs, each machine its own; then the same after kill -9.
func TestStory(t *testing.T) {
	needs(t)
	s := start(t, "--manifests", filepath.Join(root, "examples"))

	check := func(t *testing.T) {
		t.Helper()
		tests := []struct {
			name, path  string
			status      int
			contentType string
			config      string
			tier        string
			contains    string
		}{
			{"the builder's address gets coreos-builder", "/api/v1/ignition?ip=192.168.10.10", 200,
				"application/vnd.coreos.ignition+json", "g10/coreos-builder", "labels", "coreos-installer install /dev/sda"},
			{"the builder's MAC in another notation", "/api/v1/ignition?mac=5254.0010.0011", 200,
				"application/vnd.coreos.ignition+json", "g10/coreos-builder", "labels", "install-to-disk.service"},
			{"role=builder gets builder-target compiled", "/api/v1/ignition?role=builder", 200,
				"application/vnd.coreos.ignition+json", "g10/builder-target", "role", `"kernelArguments"`},
			{"the builder itself asks with role=builder", "/api/v1/ignition?ip=192.168.10.10&role=builder", 200,
				"application/vnd.coreos.ignition+json", "g10/builder-target", "role", `"podman.socket"`},
			{"the server gets its kickstart", "/api/v1/kickstart?ip=192.168.10.20", 200,
				"text/plain; charset=utf-8", "g10/fedora-server", "labels", "%packages"},
			{"an unknown address gets nothing", "/api/v1/ignition?ip=192.168.10.99", 404, "text/plain; charset=utf-8", "", "",
				""},
			{"the raw source", "/api/v1/ignition?role=builder&format=raw", 200,
				"text/plain; charset=utf-8", "g10/builder-target", "role", "variant: fcos"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				a := get(t, s.admin(tt.path))
				if a.status != tt.status || a.header.Get("Content-Type") != tt.contentType {
					t.Fatalf("%d %q: %s", a.status, a.header.Get("Content-Type"), a.body)
				}
				if got := a.header.Get("X-Glowplug-Config"); got != tt.config {
					t.Errorf("config %q, want %q", got, tt.config)
				}
				if got := a.header.Get("X-Glowplug-Match"); got != tt.tier {
					t.Errorf("match %q, want %q", got, tt.tier)
				}
				if !strings.Contains(a.body, tt.contains) {
					t.Errorf("body lacks %q:\n%s", tt.contains, a.body)
				}
			})
		}
	}
	check(t)
	etag := get(t, s.admin("/api/v1/ignition?role=builder")).header.Get("ETag")

	s.kill()
	s.args = nil // without the manifests: all of it comes from the store
	s.restart()
	t.Run("after kill -9", check)
	if again := get(t, s.admin("/api/v1/ignition?role=builder")); again.header.Get("ETag") != etag {
		t.Errorf("ETag %s before and %s after the restart", etag, again.header.Get("ETag"))
	}
	if a := get(t, s.admin("/api/v1/ignition?role=builder"), "If-None-Match", etag); a.status != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", a.status)
	}
	if code := s.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM\n%s", code, s.log)
	}
}

// TestPlainHTTP is the API as curl sees it.
func TestPlainHTTP(t *testing.T) {
	needs(t)
	s := start(t)
	const object = `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"a","namespace":"g10"},"spec":{"ip":"192.0.2.1"}}`
	list := s.admin("/api/v1/namespaces/g10/baremetalhosts")
	json := []string{"Content-Type", "application/json"}

	steps := []struct {
		name, method, url, body string
		status                  int
		reason                  string
	}{
		{"create", "POST", list, object, 201, ""},
		{"create again", "POST", list, object, 409, "AlreadyExists"},
		{"get", "GET", list + "/a", "", 200, ""},
		{"get nothing", "GET", list + "/b", "", 404, "NotFound"},
		{"replace without a resourceVersion", "PUT", list + "/a", strings.Replace(object, "192.0.2.1", "192.0.2.2", 1), 200,
			""},
		{"replace with a stale resourceVersion", "PUT", list + "/a", strings.Replace(object, `"name":"a"`,
			`"name":"a","resourceVersion":"1"`, 1), 409, "Conflict"},
		{"a bad address", "PUT", list + "/a", strings.Replace(object, "192.0.2.1", "192.0.2.777", 1), 422, "Invalid"},
		{"not JSON", "POST", list, "{", 400, "BadRequest"},
		{"list", "GET", list, "", 200, ""},
		{"delete", "DELETE", list + "/a", "", 200, ""},
		{"delete nothing", "DELETE", list + "/a", "", 404, "NotFound"},
	}
	for _, step := range steps {
		a := request(t, step.method, step.url, step.body, json...)
		if a.status != step.status {
			t.Fatalf("%s: %d: %s", step.name, a.status, a.body)
		}
		if step.reason != "" && (!strings.Contains(a.body, `"kind":"Status"`) || !strings.Contains(a.body, `"reason":"`+
			step.reason+`"`)) {
			t.Errorf("%s: not a Status with reason %s: %s", step.name, step.reason, a.body)
		}
	}
}
