package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/domain/coreos/streamtest"
	"glowplug/test/launch"
)

// TestBootImagesExample runs the program that docs/guides/streams.md shows: it is told of
// each release once, as it is imported.
func TestBootImagesExample(t *testing.T) {
	needs(t)
	s := start(t)
	dir := t.TempDir()
	add := func(release, modified string) {
		t.Helper()
		file := filepath.Join(dir, release+".json")
		if err := os.WriteFile(file, streamtest.Document(streamtest.Options{Stream: "stable", Release: release,
			Modified: modified}), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, "coreos", "import", "--kubeconfig", s.kubeconfig(),
			file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	add("44.1", "2026-07-01T00:00:00Z")

	example := filepath.Join(dir, "bootimages")
	build := exec.Command("go", "build", "-o", example, "./examples/bootimages")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out launch.Output
	run := exec.Command(example)
	run.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig())
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Process.Kill(); _ = run.Wait() }()
	seen := func(releases ...string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) == len(releases) && strings.HasPrefix(lines[len(lines)-1], releases[len(releases)-1]+" ami-") {
				return
			}
			if time.Now().After(end) || len(lines) > len(releases) {
				t.Fatalf("want %v:\n%s", releases, out.String())
			}
		}
	}
	seen("44.1")
	add("44.2", "2026-07-02T00:00:00Z")
	seen("44.1", "44.2")
	add("43.9", "2026-06-01T00:00:00Z") // an old one: no program acts
	add("44.3", "2026-07-03T00:00:00Z")
	seen("44.1", "44.2", "44.3")
}
