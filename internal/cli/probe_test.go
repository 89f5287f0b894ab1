package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProbe: a probe asks the server at the address of its settings, and fails unless machines are
// answered.
func TestProbe(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz/boot" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("[-]store failed"))
	}))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	file := filepath.Join(t.TempDir(), "glowplug.yaml")
	if err := os.WriteFile(file, []byte("listen: ["+strings.TrimPrefix(server.URL, "http://")+", \":1\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"probe", "--config", file}, {"probe", server.URL + "/readyz/boot"}, {"probe"}} {
		if len(args) == 1 {
			t.Setenv("GLOWPLUG_LISTEN", "0.0.0.0"+port)
		}
		for _, answer = range []int{http.StatusOK, http.StatusInternalServerError} {
			var stderr bytes.Buffer
			code := Main(args, strings.NewReader(""), &bytes.Buffer{}, &stderr)
			if failed := answer != http.StatusOK; (code == 1) != failed || strings.Contains(stderr.String(), "[-]store") != failed {
				t.Errorf("%q, answer %d: %d\n%s", args, answer, code, stderr.String())
			}
		}
	}
	server.Close()
	if code := Main([]string{"probe"}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}); code != 1 {
		t.Errorf("without a server: %d", code)
	}
}

// TestLocal: a probe asks an address, which needs no file of names.
func TestLocal(t *testing.T) {
	for listen, want := range map[string]string{
		":8082": "127.0.0.1:8082", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "[::1]:80", "192.0.2.1:80": "192.0.2.1:80",
		"boot.example:80": "boot.example:80",
	} {
		if got := local(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
