package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"glowplug/test/launch"
)

// TestRendered holds the subresource rendered against the real Ignition, which fetches
// the same configs: what it keeps, and the files that it writes, are what rendered
// says.
func TestRendered(t *testing.T) {
	needs(t, "root")
	parts := newParts(t)
	s := start(t, "--allow-fetch", "127.0.0.0/8")
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "IgnitionConfig",
		"metadata": map[string]any{"name": "worker", "namespace": "rack"},
		"spec": map[string]any{"type": "ignition", "format": "ignition", "config": parts.root,
			"selector": map[string]any{"matchIPs": []string{"127.0.0.1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.kubectl(string(manifest), "apply", "-f", "-")
	rendered := s.kubectl("", "get", "--raw", "/api/v1/namespaces/rack/ignitionconfigs/worker/rendered")
	asked := parts.requests()
	parts.reset()

	dir := t.TempDir()
	kept, machine := fetchForReal(t, dir, s.url("/api/v1/ignition"))
	if got := parts.requests(); got != asked {
		t.Errorf("Ignition asked\n%s\nand the server\n%s", got, asked)
	}
	want, got := sections(t, kept), sections(t, rendered)
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("rendered:\n%v\nIgnition keeps:\n%v", got, want)
	}
	for path, content := range map[string]string{"/etc/own": "own", "/etc/both": "grandchild", "/etc/zipped": "zipped",
		"/etc/second": "second"} {
		if got := read(t, filepath.Join(machine, path)); got != content {
			t.Errorf("%s: %q", path, got)
		}
	}
	if target, err := os.Readlink(filepath.Join(machine, "etc/swap")); err != nil || target != "/etc/own" {
		t.Errorf("/etc/swap: %q %v", target, err)
	}
}

// parts is a server of configs that name one another.
type parts struct {
	root string
	log  launch.Output
}

func newParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{}
	mux := http.NewServeMux()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(&p.log, "%s key=%q accept=%q encoding=%q\n", r.URL, r.Header.Get("X-Key"), r.Header.Get("Accept"),
			r.Header.Get("Accept-Encoding"))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	config := func(members, storage string) string {
		return `{"ignition": {"version": "3.4.0"` + members + `}, "storage": {` + storage + `}}`
	}
	file := func(path, content string) string {
		return `{"path": "` + path + `", "overwrite": true, "contents": {"source": "data:,` + content + `"}}`
	}
	tries := 0
	grandchild := config("", `"files": [`+file("/etc/both", "grandchild")+
		`], "links": [{"path": "/etc/swap", "target": "/etc/own"}]`)
	mux.HandleFunc("/grandchild", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, grandchild)
	})
	child := config(`, "timeouts": {"httpTotal": 20}, "config": {"merge": [{"source": "`+web.URL+`/grandchild"}]}`,
		`"files": [`+file("/etc/both", "child")+`]`)
	mux.HandleFunc("/child", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "open" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		http.Redirect(w, r, "/moved", http.StatusFound)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, child) })
	zipped := config("", `"files": [`+file("/etc/zipped", "zipped")+`]`)
	mux.HandleFunc("/zipped", func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, zipped)
		z.Close()
		w.Write(b.Bytes())
	})
	mux.HandleFunc("/second", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"ignition": {"version": "3.1.0"}, "storage": {"files": [`+file("/etc/second", "second")+
			`]}, "systemd": {"units": [{"name": "a.service", "enabled": true}]}}`)
	})
	hash := func(text string) string {
		sum := sha512.Sum512([]byte(text))
		return `"verification": {"hash": "sha512-` + hex.EncodeToString(sum[:]) + `"}`
	}
	p.root = `{"ignition": {"version": "3.3.0", "config": {"merge": [
		{"source": "` + web.URL + `/child", "httpHeaders": [{"name": "X-Key", "value": "open"}], ` + hash(child) + `},
		{"source": "` + web.URL + `/zipped", "compression": "gzip", ` + hash(zipped) + `},
		{"source": "` + web.URL + `/second"}]}},
		"storage": {"files": [` + file("/etc/own", "own") + `, ` + file("/etc/both", "parent") +
		`], "directories": [{"path": "/etc/swap"}]},
		"systemd": {"units": [{"name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]}}`
	return p
}

// requests lists what was asked for, and with which headers.
func (p *parts) requests() string { return p.log.String() }

func (p *parts) reset() { p.log.Reset() }

// sections reads what a config says about a machine, without what is empty.
func sections(t *testing.T, config string) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		t.Fatalf("%v: %s", err, config)
	}
	delete(all, "ignition")
	var prune func(any) bool
	prune = func(value any) bool {
		switch value := value.(type) {
		case map[string]any:
			for key, member := range value {
				if prune(member) {
					delete(value, key)
				}
			}
			return len(value) == 0
		case []any:
			for _, item := range value {
				prune(item)
			}
			return len(value) == 0
		}
		return value == nil
	}
	prune(all)
	return all
}

// fetchForReal boots the real Ignition from a URL: it gives the config that it keeps
// for its later stages, and the folder that it has written files to.
func fetchForReal(t *testing.T, dir, url string) (kept, machine string) {
	t.Helper()
	cmdline := filepath.Join(dir, "cmdline")
	write(t, cmdline, "ignition.platform.id=metal ignition.config.url="+url+"\n")
	binary := filepath.Join(dir, "ignition")
	const pkg = "github.com/coreos/ignition/v2/internal"
	if err := buildTool(pkg, binary, "-X "+pkg+"/version.Raw=2.26.0 -X "+pkg+"/distro.kernelCmdlinePath="+cmdline+
		" -X "+pkg+"/distro.selinuxRelabel=false"); err != nil {
		if _, statErr := os.Stat("/usr/include/blkid/blkid.h"); statErr != nil {
			t.Skipf("needs libblkid-dev: %v", err)
		}
		t.Fatal(err)
	}
	machine = filepath.Join(dir, "root")
	for _, file := range []string{"passwd", "group", "shadow", "gshadow"} {
		write(t, filepath.Join(machine, "etc", file), "")
	}
	cache := filepath.Join(dir, "cache")
	for _, stage := range []string{"fetch-offline", "fetch", "files"} {
		out, err := exec.CommandContext(t.Context(), binary, "--platform", "metal", "--stage", stage, "--root", machine,
			"--config-cache", cache, "--state-file", filepath.Join(dir, "state"),
			"--neednet", filepath.Join(dir, "neednet"), "--log-to-stdout").CombinedOutput()
		if err != nil {
			t.Fatalf("stage %s: %v\n%s", stage, err, strings.TrimSpace(string(out)))
		}
	}
	return read(t, cache), machine
}

// TestRenderOverTFTP fetches from dnsmasq, in a network namespace of its own, where
// the port of TFTP is free.
func TestRenderOverTFTP(t *testing.T) {
	needs(t, "root", "dnsmasq", "unshare", "ip")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	child := `{"ignition": {"version": "3.4.0"}, "systemd": {"units": [{"name": "a.service", "contents": "` +
		strings.Repeat("# long\\n", 2000) + `"}]}}`
	write(t, filepath.Join(dir, "served", "a.ign"), child)
	write(t, filepath.Join(dir, "node.ign"),
		`{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "tftp://127.0.0.1/a.ign"}]}}}`)
	cmd := exec.CommandContext(t.Context(), "unshare", "-n", "sh", "-c", `
		ip link set lo up
		dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --user=root --port=0 --enable-tftp --tftp-root="$1/served" --log-facility="$1/log" &
		trap "kill $!" EXIT
		for i in $(seq 50); do grep -qs TFTP "$1/log" && break; sleep 0.1; done
		"$2" render "$1/node.ign" --allow-fetch 127.0.0.1`, "sh", dir, program)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if want := sections(t, child); !reflect.DeepEqual(sections(t, string(out)), want) {
		t.Errorf("%.500s", out)
	}
}
