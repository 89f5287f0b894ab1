package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// TestFullDisk fills the disk under the store: writes are refused at once,
// machines are served, deletes work, and room is noticed without a restart.
func TestFullDisk(t *testing.T) {
	needs(t, "root", "mount")
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a tmpfs: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	s := &server{t: t, dir: filepath.Join(disk, "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t),
		args: []string{"--manifests", filepath.Join(root, "examples")}}
	s.launch()
	s.waitReady()

	filler := filepath.Join(disk, "filler")
	_ = os.WriteFile(filler, make([]byte, 200<<20), 0o644) // as much as there is room for
	list := s.admin("/api/v1/namespaces")
	const object = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`
	began := time.Now()
	if a := request(t, "POST", list, object, "Content-Type",
		"application/json"); a.status != http.StatusInsufficientStorage || !strings.Contains(a.body, "make room") {
		t.Errorf("a write on a full disk: %d %s", a.status, a.body)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the refusal took %s", took)
	}
	if a := get(t, s.admin("/api/v1/ignition?ip=192.168.10.10")); a.status != http.StatusOK {
		t.Errorf("a machine, while the disk is full: %d %s", a.status, a.body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a write succeeds after room was made", func() bool {
		return request(t, "POST", list, object, "Content-Type", "application/json").status == http.StatusCreated
	})
	s.kubectl("", "delete", "bmh", "-n", "g10", "server-1")
}

// TestExternalNATS runs two servers on one NATS: away at start, shared, away in
// the middle, and back.
func TestExternalNATS(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	shared := []string{"--nats-url", "nats://127.0.0.1:" + nats.port, "--pki-dir", filepath.Join(t.TempDir(), "pki")}
	one := &server{t: t, dir: filepath.Join(t.TempDir(), "one"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t),
		args: shared}
	one.launch()
	testkit.Until(t, "the server listens although NATS is away", func() bool {
		resp, err := http.Get(one.url("/livez"))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if a := get(t, one.url("/api/v1/ignition")); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a machine before the store was ever reached: %d %v", a.status, a.header)
	}
	if a := get(t, one.url("/readyz")); a.status != 500 {
		t.Errorf("readyz: %d", a.status)
	}
	nats.start()
	one.waitReady()
	two := start(t, shared...)

	one.kubectl(configFor("a"), "apply", "-f", "-")
	deadline := time.Now().Add(2 * time.Second)
	for get(t, two.url("/api/v1/ignition")).status != 200 {
		if time.Now().After(deadline) {
			t.Fatal("the other replica does not serve the write")
		}
		time.Sleep(time.Millisecond)
	}
	same := get(t, one.url("/api/v1/ignition"))
	if other := get(t, two.url("/api/v1/ignition")); other.body != same.body ||
		other.header.Get("ETag") != same.header.Get("ETag") {
		t.Errorf("the replicas differ: %v %v", same.header, other.header)
	}

	nats.stop()
	for _, s := range []*server{one, two} {
		if a := get(t, s.url("/api/v1/ignition")); a.status != 200 || a.body != same.body {
			t.Errorf("a machine while NATS is away: %d %s", a.status, a.body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} { // kubectl would try again for some time
		began := time.Now()
		a := request(t, method, one.admin("/api/v1/namespaces/default/ignitionconfigs/c"), "")
		if took := time.Since(began); a.status != 503 && a.status != 504 || took > 6*time.Second {
			t.Errorf("%s while NATS is away: %d after %s", method, a.status, took)
		}
	}
	if a := get(t, one.admin("/api/v1/namespaces/default/ignitionconfigs/c?resourceVersion=0")); a.status != 200 {
		t.Errorf("a read of whatever is known while NATS is away: %d", a.status)
	}
	nats.start()
	testkit.Until(t, "a write succeeds once NATS is back", func() bool {
		_, _, err := one.tryKubectl(configFor("b"), "replace", "-f", "-")
		return err == nil
	})
	for _, s := range []*server{one, two} {
		testkit.Until(t, "the new config is served", func() bool {
			return strings.Contains(get(t, s.url("/api/v1/ignition")).body, "/etc/b")
		})
	}
}

// TestNATSWithSmallMessagesIsRefused: a server on a NATS whose max_payload is too small
// is not ready and says what to do, writes nothing, and goes on once that is done.
func TestNATSWithSmallMessagesIsRefused(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	conf := filepath.Join(nats.dir, "nats.conf")
	good, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	write(t, conf, strings.Replace(string(good), "16MB", "8MB", 1))
	nats.start()
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t),
		args: []string{"--nats-url", "nats://127.0.0.1:" + nats.port}}
	s.launch()
	testkit.Until(t, "the reason and the remedy", func() bool {
		resp, err := http.Get(s.url("/readyz/nats"))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode == http.StatusInternalServerError && strings.Contains(string(text), "at most 8388608 bytes") &&
			strings.Contains(string(text), "set max_payload: 16MB")
	})
	if a := get(t, s.url("/api/v1/ignition")); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a machine: %d %v", a.status, a.header)
	}
	if found, _ := filepath.Glob(filepath.Join(nats.dir, "js", "jetstream", "$G", "streams", "*")); len(found) > 0 {
		t.Errorf("buckets were made: %v", found)
	}
	write(t, conf, string(good))
	if err := nats.cmd.Process.Signal(syscall.SIGHUP); err != nil { // reload
		t.Fatal(err)
	}
	s.waitReady()
}

func configFor(file string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: IgnitionConfig
metadata: {name: c, namespace: default}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/%s"}]}}'
  selector: {default: true}
`, file)
}

// natsServer is the real nats-server with a store on disk.
type natsServer struct {
	t         *testing.T
	path, dir string
	port      string
	cmd       *exec.Cmd
}

func newNATS(t *testing.T) *natsServer {
	t.Helper()
	n := &natsServer{t: t, path: filepath.Join(filepath.Dir(program), "nats-server"), dir: t.TempDir(), port: freePort(t)}
	build := exec.Command("go", "build", "-o", n.path, "github.com/nats-io/nats-server/v2")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building nats-server: %v\n%s", err, out)
	}
	write(t, filepath.Join(n.dir, "nats.conf"), fmt.Sprintf(
		"listen: 127.0.0.1:%s\nmax_payload: 16MB\njetstream { store_dir: %q, sync_interval: always }\n", n.port,
		filepath.Join(n.dir, "js")))
	t.Cleanup(n.stop)
	return n
}

func (n *natsServer) start() {
	n.t.Helper()
	n.cmd = exec.Command(n.path, "-c", filepath.Join(n.dir, "nats.conf"))
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	testkit.Until(n.t, "nats-server listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+n.port)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func (n *natsServer) stop() {
	if n.cmd != nil && n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	}
}
