package main

import (
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example is a package of ours that calls net/netip.
const example = "glowplug/internal/domain/netaddr"

// hole says that every release of Go has one in netip.ParseAddr.
const hole = `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
"summary":"a hole for a test","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"net/netip","symbols":["ParseAddr"]}]}}],
"database_specific":{"url":"https://pkg.go.dev/vuln/GO-2026-0001"}}`

// database makes a vulnerability database, empty but for the hole.
func database(t *testing.T, withHole bool) (dir string) {
	t.Helper()
	files := map[string]string{
		"index/db.json": `{"modified":"2026-01-01T00:00:00Z"}`, "index/modules.json": `[]`, "index/vulns.json": `[]`,
	}
	if withHole {
		files["index/modules.json"] = `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`
		files["index/vulns.json"] = `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`
		files["ID/GO-2026-0001.json"] = hole
	}
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestVulncheck: a known hole that the code calls fails the check, from a folder as
// from a server; without a database the check says so and is no failure.
func TestVulncheck(t *testing.T) {
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("builds govulncheck and checks the whole program, which takes a minute: TEST_E2E is not set")
	}
	dir := database(t, true)
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(r.URL.Path, ".gz")))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		packed := gzip.NewWriter(w)
		packed.Write(content)
		packed.Close()
	}))
	defer bad.Close()
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, test := range []struct {
		name, database string
		fails          bool
		says           string
	}{
		{"nothing is known, in a folder", "file://" + database(t, false), false, "No vulnerabilities found"},
		{"a hole, in a folder", "file://" + database(t, true), true, "GO-2026-0001"},
		{"a hole, from a server", bad.URL, true, "GO-2026-0001"},
		{"nobody listens", "http://" + gone.Addr().String(), false, "vulncheck: skipped"},
		{"something else answers", empty.URL, false, "vulncheck: skipped"},
		{"no such folder", "file:///does/not/exist", false, "vulncheck: skipped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := run(&out, test.database, example)
			if (err != nil) != test.fails || !strings.Contains(out.String(), test.says) {
				t.Errorf("%v\n%s", err, &out)
			}
			if strings.Contains(test.says, "skipped") && strings.Count(out.String(), "\n") != 1 {
				t.Errorf("more than a line: %s", &out)
			}
		})
	}
}
