package kvstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/keylog"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// blocks lists the files with a bucket's messages, the oldest first.
func blocks(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/*/streams/KV_HOSTS/msgs/*.blk"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no blocks in %s: %v", dir, err)
	}
	slices.SortFunc(found, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return found
}

// harms are what may become of a file.
var harms = map[string]func(path string) error{
	"cut short": func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	},
	"emptied": func(path string) error { return os.Truncate(path, 0) },
	"removed": os.Remove,
	"begins with other bytes": func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(make([]byte, 64), 0); err != nil {
			return err
		}
		return f.Close()
	},
}

// Objects whose file is damaged are not silently gone: each is named and counted,
// over every restart, until it is there again. Where the file itself shows the damage, nothing is read.
func TestLostFilesAreAlarmedByName(t *testing.T) {
	dir := t.TempDir()
	keyDir := "ledger"
	s, stop := reopen(t, dir, Options{KeyDir: filepath.Join(dir, keyDir)})
	awaitReady(t, s)
	note := strings.Repeat("a long note ", 10<<10)
	createHosts(t, s, 0, 70)
	for i := range 70 { // some blocks
		update(t, s, i, func(h *v1.BareMetalHost) { h.Annotations["note"] = note })
	}
	all := names(s)
	time.Sleep(3 * keylog.WriteInterval) // what the key log does not know yet is not verified
	killed := natstest.CopyRunning(t, dir)
	stop()
	for name, harm := range harms {
		for state, from := range map[string]string{"stopped": dir, "killed": killed} {
			t.Run(name+", "+state, func(t *testing.T) {
				t.Parallel()
				dir := natstest.CopyRunning(t, from)
				if err := harm(blocks(t, dir)[1]); err != nil {
					t.Fatal(err)
				}
				for start := range 2 {
					logger, lines := logstest.Logger()
					s, stop := reopen(t, dir, Options{KeyDir: filepath.Join(dir, keyDir), Logger: logger})
					testkit.Until(t, "the bucket is read, or refused", func() bool {
						err := s.connection.ReadinessCheck()
						return err == nil || s.contents.metrics.lost.Load() > 0 || errors.As(err, new(*natsd.Damage))
					})
					if s.connection.Loaded() {
						left := names(s)
						missing := len(all) - len(left)
						if missing == 0 || len(s.Lost()) != missing {
							t.Errorf("start %d: %d of %d objects are gone, and %v counted", start, missing, len(all),
								len(s.Lost()))
						}
						for _, object := range all {
							if !slices.Contains(left, object) && !slices.Contains(s.Lost(), "default/"+object) {
								t.Errorf("start %d: %s is gone without a word", start, object)
							}
						}
						if !strings.Contains(lines(), "object=baremetalhosts/default/host-") {
							t.Errorf("start %d: the log names no object:\n%s", start, lines())
						}
					}
					stop()
				}
			})
		}
	}
}

// What was lost can be applied again, and is no alarm then.
func TestLostObjectAppliedAgainIsNoAlarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := Options{KeyDir: filepath.Join(dir, "ledger")}
	s, stop := reopen(t, dir, opts)
	awaitReady(t, s)
	createHosts(t, s, 0, 5)
	s.contents.keys.Put("default/host-000007", s.contents.mirror.revision()) // as if it had been there
	stop()
	s, stop = reopen(t, dir, opts)
	awaitReady(t, s)
	if got := len(s.Lost()); got != 1 {
		t.Fatalf("%v are damaged, want 1", got)
	}
	createHosts(t, s, 7, 8)
	if len(s.Lost()) > 0 {
		t.Error("it counts as damaged when it is there again")
	}
	stop()
	s, _ = reopen(t, dir, opts)
	awaitReady(t, s)
	if len(s.Lost()) > 0 || s.contents.count() != 6 {
		t.Errorf("after a restart: damaged %v, %d objects", len(s.Lost()) > 0, s.contents.count())
	}
}

// If the file with the tombstones is lost, the key log still knows what was deleted.
func TestDeletedObjectsStayDeletedWithoutTheirTombstones(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := Options{KeyDir: filepath.Join(dir, "ledger")}
	s, stop := reopen(t, dir, opts)
	awaitReady(t, s)
	createHosts(t, s, 0, 5)
	for i := range 3 {
		s.contents.keys.Delete(host(i).Namespace+"/"+host(i).Name, s.contents.mirror.revision())
	}
	stop()
	for range 2 {
		s, stop = reopen(t, dir, opts)
		awaitReady(t, s)
		if s.contents.count() != 2 || len(s.Lost()) > 0 {
			t.Errorf("%d objects, damaged %v", s.contents.count(), len(s.Lost()) > 0)
		}
		testkit.Until(t, "they are deleted again", func() bool { return s.contents.mirror.revision() == 9 })
		stop()
	}
}
