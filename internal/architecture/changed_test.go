package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsoleIsTriedWhereItChanged: a landing tries the console in a browser if its pages changed, the words that
// they show, or the API.
func TestConsoleIsTriedWhereItChanged(t *testing.T) {
	for folder, want := range map[string]bool{
		"internal/serve/console":           true,
		"internal/serve/console/templates": true,
		"internal/domain/wording":          true,
		"internal/serve/api":               true,
		"test/console":                     true,
		"internal/serve/iscsi":             false,
		"internal/serve/consoles":          false,
	} {
		bin := t.TempDir()
		made := filepath.Join(bin, "made")
		for tool, script := range map[string]string{"go": "echo ok", "dpkg-query": "echo installed", "make": "echo $* >>" + made} {
			if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "hack", "test-all.sh"), folder)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", folder, err, out)
		}
		targets, _ := os.ReadFile(made)
		if got := strings.Contains(string(targets), "test-console"); got != want {
			t.Errorf("%s: the console is tried: %v", folder, got)
		}
	}
}

// TestChangedFolders: a change of a template or a style of the console counts as one of Go does.
func TestChangedFolders(t *testing.T) {
	repo := t.TempDir()
	script, err := os.ReadFile(filepath.Join("..", "..", "hack", "changed.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "CI_BASE=HEAD~1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(repo, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() {
		run("git", "add", ".")
		run("git", "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "one")
	}
	run("git", "init", "-q")
	write("hack/changed.sh", string(script))
	commit()
	for _, path := range []string{"docs/a.md", "internal/limit/a.go", "internal/serve/console/static/a.css"} {
		write(path, "new")
	}
	commit()
	if got := run(filepath.Join(repo, "hack", "changed.sh")); got != "internal/limit\ninternal/serve/console/static\n" {
		t.Errorf("changed are %q", got)
	}
}
