package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const aNamespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`

// refusesWrites checks that a write is answered 503 at once, with a reason that /readyz and the log have too,
// and that machines are served. /readyz stays so while writes come.
func (s *server) refusesWrites(reason string) {
	s.t.Helper()
	for range 3 {
		began := time.Now()
		a := request(s.t, "POST", s.admin("/api/v1/namespaces"), aNamespace, "Content-Type", "application/json")
		if took := time.Since(began); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, reason) ||
			a.header.Get("Retry-After") == "" || took > 2*time.Second {
			s.t.Errorf("a write: %d after %s: %s", a.status, took, a.body)
		}
		if a := get(s.t, s.admin("/readyz/store-writable")); a.status == http.StatusOK || !strings.Contains(a.body, reason) {
			s.t.Errorf("/readyz/store-writable: %d %s", a.status, a.body)
		}
		if a := get(s.t, s.admin("/readyz/store-namespaces")); a.status != http.StatusOK {
			s.t.Errorf("/readyz/store-namespaces: %d %s", a.status, a.body)
		}
	}
	if a := get(s.t, s.url("/readyz")); a.status == http.StatusOK {
		s.t.Error("/readyz is 200")
	}
	if a := get(s.t, s.url("/api/v1/ignition")); a.status != http.StatusOK {
		s.t.Errorf("a machine: %d %s", a.status, a.body)
	}
	if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, reason) {
		s.t.Errorf("the log has no %q", reason)
	}
}

// TestReadOnlyFileSystem: the file system of the data folder turns read-only, as ext4 does after an error of
// its disk: writes are refused at once, with the reason, and machines are served.
func TestReadOnlyFileSystem(t *testing.T) {
	needs(t, "root", "mount", "mkfs.ext4")
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"truncate -s 300M " + disk + ".img", "mkfs.ext4 -q -F " + disk + ".img",
		"mount -o loop,errors=remount-ro " + disk + ".img " + disk,
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Skipf("needs an ext4 file system to break: %s: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	s := &server{t: t, dir: filepath.Join(disk, "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t)}
	s.launch()
	s.waitReady()
	s.kubectl(configFor("a"), "apply", "-f", "-")
	if out, err := exec.Command("mount", "-o", "remount,abort", disk).CombinedOutput(); err != nil {
		t.Skipf("the file system cannot be broken: %v %s", err, out)
	}
	s.refusesWrites("read-only file system")
}

// TestRemovedLock: somebody removes the lock of a running server. A second server is refused all the same,
// and the first one writes nothing more, and says so.
func TestRemovedLock(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(configFor("a"), "apply", "-f", "-")
	if err := os.Remove(filepath.Join(s.dir, "store.lock")); err != nil {
		t.Fatal(err)
	}
	second := &server{t: t, dir: s.dir, host: s.host, plain: freePort(t), tls: freePort(t)}
	second.launch()
	if code := second.exits(); code == 0 || !strings.Contains(second.log.String(), "is in use by") {
		t.Errorf("a second server: exit code %d: %s", code, second.log)
	}
	s.refusesWrites("store.lock does not keep other servers out any more")
}
