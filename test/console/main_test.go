package console

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"glowplug/internal/credentials"
	"glowplug/test/launch"
)

// chromium is Debian's browser, of the package of this name.
const chromium = "chromium"

// Made by TestMain: the program under test, and a data directory whose certificates each server gets, since the
// browser is told at its start which one it shall trust.
var program, certificates string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if missing() != "" {
		return m.Run() // each test skips and says why
	}
	dir, err := os.MkdirTemp("", "glowplug-console")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = prepare(dir)
	}
	if err == nil {
		var stop func()
		stop, err = startBrowser(filepath.Join(dir, "profile"))
		defer stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare builds the program and makes the certificates.
func prepare(dir string) error {
	program, certificates = filepath.Join(dir, "glowplug"), filepath.Join(dir, "certificates")
	if err := launch.Build(program); err != nil {
		return err
	}
	_, err := credentials.Ensure(credentials.Options{DataDir: certificates, Server: "https://127.0.0.1"})
	return err
}

// missing is what the tests of this package lack, "" where they can run.
func missing() string {
	if os.Getenv("TEST_CONSOLE") == "" {
		return "TEST_CONSOLE is not set: make test-console runs this"
	}
	if _, err := exec.LookPath(chromium); err != nil {
		return "needs " + chromium + ", which is not installed"
	}
	return ""
}

// needs skips the test, with the reason, where it cannot run.
func needs(t *testing.T) {
	t.Helper()
	if reason := missing(); reason != "" {
		t.Skip(reason)
	}
}
