package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestRootsWithoutASystem: the program knows the public CAs also where the system has none, as
// in its container image.
func TestRootsWithoutASystem(t *testing.T) {
	const child = "GLOWPLUG_TEST_ROOTS"
	if os.Getenv(child) != "" {
		if pool, err := x509.SystemCertPool(); err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("no CA is known: %v", err)
		}
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestRootsWithoutASystem$")
	cmd.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
