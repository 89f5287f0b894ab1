package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// TestAnotherServerGetsNothing: a kubeconfig may be that of a Kubernetes cluster, which
// would take the Namespaces and ConfigMaps of a manifest.
func TestAnotherServerGetsNothing(t *testing.T) {
	var asked []string
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces"}]}`)
	}))
	t.Cleanup(cluster.Close)
	file := filepath.Join(t.TempDir(), "config")
	content := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}]," +
		` clusters: [{name: a, cluster: {server: "` + cluster.URL + `"}}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	options := &clientOptions{kubeconfig: file}
	err := options.do(t.Context(), client.Request{Method: http.MethodPost, Resource: "namespaces"}, nil)
	if err == nil || !strings.Contains(err.Error(), "is no glowplug server") || hintOf(err, nil) == "" {
		t.Errorf("%v", err)
	}
	if !slices.Equal(asked, []string{"GET /api/v1"}) {
		t.Errorf("asked %q", asked)
	}
}

// asGlowplug answers the question whether a server is glowplug, before a handler.
func asGlowplug(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1" {
			h(w, r)
			return
		}
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"ignitionconfigs"}]}`)
	}
}

// TestRenderSaysWhatIsMissing: -n moves the config, and --host names the namespace of the host.
func TestRenderSaysWhatIsMissing(t *testing.T) {
	for resource, hint := range map[string]string{
		"ignitionconfigs": "it was looked for in the namespace rack-a: -n names another one",
		"baremetalhosts":  "--host NAMESPACE/NAME names a host of another namespace than the config's",
	} {
		server := httptest.NewServer(asGlowplug(func(w http.ResponseWriter, _ *http.Request) {
			missing := apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "x").Status()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(&missing)
		}))
		t.Cleanup(server.Close)
		var out, errs strings.Builder
		args := []string{"render", "x", "-n", "rack-a", "--host", "x", "--server", server.URL}
		code := Main(args, strings.NewReader(""), &out, &errs)
		if code != 1 || !strings.HasSuffix(errs.String(), "\nhint: "+hint+"\n") {
			t.Errorf("%s: %d\n%s", resource, code, errs.String())
		}
	}
}

// TestNothingIsSentToAnotherServer: a command asks what a server is before it sends an object.
func TestNothingIsSentToAnotherServer(t *testing.T) {
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		http.Error(w, "<html>not found</html>", http.StatusNotFound)
	}))
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", file}, {"adopt", "um/52-54-00-12-34-56", "--name", "n"}, {"render", "worker"},
		{"coreos", "import", "testdata/rhcos-amd64.json"}, {"explain", "mac=52:54:00:12:34:56"},
	} {
		asked = nil
		var out, errs strings.Builder
		code := Main(append(args, "--server", web.URL), strings.NewReader(""), &out, &errs)
		if want := "error: " + web.URL + " is no glowplug server: it has no ignitionconfigs\nhint: name "; code != 1 ||
			!strings.HasPrefix(errs.String(), want) {
			t.Errorf("%s: %d\n%s", args, code, errs.String())
		}
		if !slices.Equal(asked, []string{"GET /api/v1"}) {
			t.Errorf("%s asked %q", args, asked)
		}
	}
}
