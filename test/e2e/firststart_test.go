package e2e

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// killRounds is how often a first start is killed in each case, at moments that are spread over it.
const killRounds = 8

// TestKillDuringAFirstStart kills the server while it makes its buckets, on a new folder and on one of
// an earlier release that lacks some kinds. The next start is ready, and has all objects. Every step of the
// creation has a test of its own in internal/store/natsd; here the program is killed.
func TestKillDuringAFirstStart(t *testing.T) {
	needs(t)
	older := start(t)
	older.kubectl(configFor("a"), "apply", "-f", "-")
	if code := older.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, bucket := range []string{"SECRETS", "CLUSTERROLES", "CLUSTERROLEBINDINGS", "ROLES", "ROLEBINDINGS",
		"STREAMRELEASES", "UNKNOWNMACHINES"} {
		if err := os.RemoveAll(filepath.Join(older.dir, "nats", "jetstream", "$G", "streams", "KV_"+bucket)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, "store", "adopt", "--data-dir", older.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, from := range []string{"", older.dir} {
		for _, encrypt := range []bool{false, true} {
			t.Run(fmt.Sprintf("older folder %v, encrypted %v", from != "", encrypt), func(t *testing.T) {
				most := 0
				for round := range killRounds {
					most = max(most, killFirstStart(t, from, encrypt, round, most))
				}
			})
		}
	}
}

// killFirstStart kills a start on a copy of a folder, once it has made its share of the files of a whole
// start, and starts again. The first round is not killed, and returns how many files a start makes.
func killFirstStart(t *testing.T, from string, encrypt bool, round, most int) (files int) {
	s := &server{t: t, host: "127.0.0.1", dir: filepath.Join(t.TempDir(), "data"), plain: freePort(t), tls: freePort(t)}
	if from != "" {
		if err := os.CopyFS(s.dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	if encrypt {
		s.args = []string{"--encrypt"}
	}
	had := countFiles(s.dir)
	s.launch()
	deadline := time.Now().Add(30 * time.Second)
	for round > 0 && countFiles(s.dir)-had < most*round/killRounds {
		if time.Now().After(deadline) {
			t.Fatalf("a start makes %d files, not %d", countFiles(s.dir)-had, most)
		}
		time.Sleep(100 * time.Microsecond)
	}
	if round > 0 {
		s.kill()
		s.launch()
	}
	s.waitReady()
	if aside, err := os.ReadDir(filepath.Join(s.dir, "damaged")); err == nil {
		t.Errorf("set aside after a kill at %d of %d files: %v", most*round/killRounds, most, aside)
	}
	if from != "" {
		if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusOK {
			t.Errorf("the config of the older release: %d %s", a.status, a.body)
		}
	}
	files = countFiles(s.dir) - had
	if code := s.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	return files
}

// countFiles counts the files and folders below a folder, which change meanwhile.
func countFiles(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { n++; return nil })
	return n
}
