package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Programs under test, built by TestMain.
var glowplug, natsServer string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("TEST_CLUSTER") == "" {
		return m.Run() // the test of the cluster skips and says why
	}
	dir, err := os.MkdirTemp("", "glowplug-cluster")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	glowplug, natsServer = filepath.Join(dir, "glowplug"), filepath.Join(dir, "nats-server")
	for path, pkg := range map[string]string{glowplug: "./cmd/glowplug", natsServer: "github.com/nats-io/nats-server/v2"} {
		build := exec.Command("go", "build", "-o", path, pkg)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	removeStale()
	return m.Run()
}

// needs skips the test, with the reason, where it cannot run.
func needs(t *testing.T) {
	t.Helper()
	if os.Getenv("TEST_CLUSTER") == "" {
		t.Skip("TEST_CLUSTER is not set: make test runs this in a step of its own")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip, which is not installed")
	}
}
