package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReverseProxy puts nginx on the same machine before a server whose loopback
// callers are admin: nobody who comes through it is.
func TestReverseProxy(t *testing.T) {
	needs(t, "nginx")
	s := start(t, "--loopback-admin", "--trusted-proxies", "127.0.0.2/32")
	dir, port := t.TempDir(), freePort(t)
	write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`
daemon off; pid %[1]s/pid; error_log %[1]s/error.log; events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen 127.0.0.1:%[2]s;
    location / { proxy_pass http://127.0.0.1:%[3]s; proxy_bind 127.0.0.2; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }
  }
}`, dir, port, s.plain))
	nginx := exec.Command("nginx", "-c", filepath.Join(dir, "nginx.conf"), "-p", dir)
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nginx.Process.Kill(); _ = nginx.Wait() })
	time.Sleep(300 * time.Millisecond)

	s.kubectl(rackObjects, "apply", "-f", "-")
	through := "http://127.0.0.1:" + port
	for _, header := range [][]string{nil, {"X-Forwarded-For", "127.0.0.1"}, {"Host", "localhost"}} {
		if a := get(t, through+"/api/v1/namespaces/rack/baremetalhosts", header...); a.status != 401 || !strings.Contains(a.body, `"Status"`) {
			t.Errorf("the API through the proxy with %v: %d %s", header, a.status, a.body)
		}
		if a := get(t, through+"/api/v1/ignition?mac=52:54:00:00:00:01", header...); a.status != 403 {
			t.Errorf("a claim through the proxy with %v: %d %s", header, a.status, a.body)
		}
	}
	if a := get(t, through+"/api/v1/kickstart", "X-Forwarded-For", "192.0.2.12"); a.status != 404 {
		t.Errorf("an X-Forwarded-For entry from before the proxy was believed: %d %s", a.status, a.body)
	}
}

// TestBrowser: a page of another site open on the admin's own machine gets nothing.
func TestBrowser(t *testing.T) {
	needs(t)
	s := start(t, "--loopback-admin")
	path := s.url("/api/v1/namespaces/default/baremetalhosts")
	if a := get(t, path); a.status != 200 {
		t.Fatalf("a plain loopback caller: %d %s", a.status, a.body)
	}
	for name, header := range map[string][]string{
		"DNS rebinding":       {"Host", "evil.example"},
		"a page of elsewhere": {"Origin", "http://evil.example"},
		"a page of this host": {"Origin", s.url("")},
		"cross-site fetch":    {"Sec-Fetch-Site", "cross-site"},
		"same-site fetch":     {"Sec-Fetch-Site", "same-site"},
		"Forwarded":           {"Forwarded", "for=127.0.0.1"},
		"X-Forwarded-Host":    {"X-Forwarded-Host", "localhost"},
		"Via":                 {"Via", "1.1 proxy"},
		"an empty forwarding": {"X-Forwarded-For", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if a := get(t, path, header...); a.status != 401 || !strings.Contains(a.body, `"kind":"Status"`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	for _, site := range []string{"none", "same-origin"} {
		if a := get(t, path, "Sec-Fetch-Site", site); a.status != 200 {
			t.Errorf("Sec-Fetch-Site %s: %d", site, a.status)
		}
	}
}
