package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"glowplug/test/launch"
)

// program is the binary under test; root is the repository.
var program, root string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if role := os.Getenv(roleOfClients); role != "" {
		return networkClients(role)
	}
	if os.Getenv("TEST_E2E") == "" {
		return m.Run() // each test skips and says why
	}
	dir, err := os.MkdirTemp("", "glowplug-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	root, _ = filepath.Abs("../..")
	program = filepath.Join(dir, "glowplug")
	if err := launch.Build(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if path := os.Getenv("PLANTED_REPORT"); path != "" {
		if err := os.WriteFile(path, []byte(planted.report()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// needs skips the test, with the reason, where it cannot run.
func needs(t *testing.T, commands ...string) {
	t.Helper()
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("TEST_E2E is not set: make test runs this")
	}
	for _, c := range commands {
		if c == "root" {
			if os.Geteuid() != 0 {
				t.Skip("needs root for network namespaces")
			}
			continue
		}
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("needs %s, which is not installed", c)
		}
	}
}
