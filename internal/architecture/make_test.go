package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeSaysThatThereIsNoGo: the first command of the README names the remedy on a machine without Go.
func TestMakeSaysThatThereIsNoGo(t *testing.T) {
	make, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is not installed")
	}
	bin := t.TempDir()
	for _, tool := range []string{"sh", "git", "sed", "expand"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skip(tool + " is not installed")
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"", "run", "test"} {
		cmd := exec.CommandContext(t.Context(), make, "-C", filepath.Join("..", ".."), target)
		if target == "" {
			cmd.Args = cmd.Args[:3]
		}
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "there is no Go (go): install Go 1.26 or later from https://go.dev/dl/") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}
