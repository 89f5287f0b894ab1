package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// block returns what stands between a line and the next end of a code block.
func block(t *testing.T, page, from string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, from+"\n")
	text, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatalf("the page has no %q", from)
	}
	return text
}

// TestLayersPage does what docs/layers.md shows.
func TestLayersPage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/layers.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	file := filepath.Join(t.TempDir(), "rack7.yaml")
	if err := os.WriteFile(file, []byte(block(t, page, "```yaml")), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := Main(args, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%q: %d\n%s", args, code, stderr.String())
		}
		return stdout.String()
	}
	run("validate", file)
	got := run("explain", "--manifests", file, "hostname=node-3", "--expect", "rack7/storage-node")
	if want := block(t, page, "…"); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
