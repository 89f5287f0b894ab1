package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"glowplug/internal/client"
)

// The kubeconfig of a server without TLS has an http:// URL, for which the library
// keeps back its token: these commands send it, but to this machine alone.
func TestKubeconfigOverPlainHTTP(t *testing.T) {
	dir := t.TempDir()
	server := runServer(t, "--data-dir", dir)
	file := filepath.Join(dir, "admin.kubeconfig")
	options := &clientOptions{kubeconfig: file}
	request := client.Request{Resource: "namespaces"}
	if err := options.do(t.Context(), request, nil); err != nil {
		t.Error(err)
	}
	if err := (&clientOptions{server: server}).do(t.Context(), request, nil); client.Code(err) != 401 {
		t.Errorf("without a credential: %v", err)
	}

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for host, sent := range map[string]bool{
		"http://127.0.0.2:80": true, "http://[::1]:80": true, "http://localhost:80": true, "https://192.0.2.1:443": true,
		"http://192.0.2.1:80": false, "http://localhost.example:80": false,
	} {
		if err := os.WriteFile(file, bytes.ReplaceAll(content, []byte(server), []byte(host)), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := options.config()
		if err != nil {
			t.Fatal(err)
		}
		if (config.BearerToken != "") != sent {
			t.Errorf("%s: a token: %v, want %v", host, !sent, sent)
		}
	}
}

// TestServerBySocket: --server takes the Unix socket of an admin listener, too.
func TestServerBySocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "admin") // a short path, as sockets need
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := "unix:" + filepath.Join(dir, "admin.sock")
	runServer(t, "--admin-listen", socket)
	if err := (&clientOptions{server: socket}).do(t.Context(), client.Request{Resource: "namespaces"}, nil); err != nil {
		t.Error(err)
	}
}
