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

// TestLayersPage does what docs/guides/layers.md shows.
func TestLayersPage(t *testing.T) {
	page := read(t, "../../docs/guides/layers.md")
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

// TestTutorialManifests: every manifest of the tutorial is valid.
func TestTutorialManifests(t *testing.T) {
	blocks := strings.Split(read(t, "../../docs/start/tutorial.md"), "```yaml\n")[1:]
	var manifests []string
	for _, b := range blocks {
		manifests = append(manifests, strings.SplitN(b, "```", 2)[0])
	}
	file := filepath.Join(t.TempDir(), "rack-a.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(manifests, "---\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main([]string{"validate", file}, strings.NewReader(""), &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String()+stderr.String(), "3 configs and objects in 1 file checked: 0 errors") {
		t.Errorf("%d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// TestMatchboxPage does what docs/guides/matchbox.md shows.
func TestMatchboxPage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/guides/matchbox.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rack-7.yaml")
	if err := os.WriteFile(file, []byte(block(t, string(raw), "```yaml")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"validate", file},
		{"explain", "--manifests", file, "mac=52:54:00:a1:9c:ae", "--expect", "rack-7/worker"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(args, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: %d\n%s%s", args, code, stdout.String(), stderr.String())
		}
	}
}

// TestExplainOutputInPages compares the outputs of explain in the pages with real ones. A line
// "…" stands for lines that are left out.
func TestExplainOutputInPages(t *testing.T) {
	started := read(t, "../../docs/start/tutorial.md")
	host, config := block(t, started, "```yaml"), ""
	if _, rest, ok := strings.Cut(started, "## Write its config"); ok {
		config = block(t, rest, "```yaml")
	}
	file := filepath.Join(t.TempDir(), "rack-a.yaml")
	if err := os.WriteFile(file, []byte(host+"---\n"+config), 0o644); err != nil {
		t.Fatal(err)
	}
	for page, args := range map[string][]string{
		started: {"rack-a/node-1"},
		read(t, "../../docs/reference/matching.md"): {"ip=192.168.10.102", "mac=52:54:00:12:34:56"},
	} {
		var stdout bytes.Buffer
		Main(append([]string{"explain", "--manifests", file}, args...), strings.NewReader(""), &stdout, &bytes.Buffer{})
		_, shown, ok := strings.Cut(page, "    $ glowplug explain "+strings.Join(args, " ")+"\n    client: ")
		shown, _, end := strings.Cut("client: "+shown, "\n\n")
		if !ok || !end {
			t.Fatalf("the page has no output of explain %q", args)
		}
		for line := range strings.Lines(shown + "\n") {
			if line = strings.TrimLeft(line, " "); line != "…\n" && !strings.Contains(stdout.String(), line) {
				t.Errorf("explain %q: the page has %q, not in\n%s", args, line, stdout.String())
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
