package bootlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/keylog"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// embedded runs a log on a folder, as a server alone does, until stop or the test's end.
func embedded(t *testing.T, dir string) (r *rig, lines func() string, stop func()) {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	logger, lines := logstest.Logger()
	r = run(t, js, Options{Exclusive: true, KeyDir: filepath.Join(dir, "ledger"), Logger: logger})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			r.stop()
			js.CleanupPublisher()
			conn.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return r, lines, stop
}

// lastBlock is the file with the newest messages.
func lastBlock(t *testing.T, dir string) (path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/*/streams", Stream, "msgs/*.blk"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no blocks in %s: %v", dir, err)
	}
	for _, f := range found {
		if len(f) > len(path) || len(f) == len(path) && f > path {
			path = f
		}
	}
	return path
}

// settle waits until the file of the newest sequence is written: what it does not
// know yet is not verified.
func settle(t *testing.T, r *rig) {
	t.Helper()
	if err := r.keys.Write(false); err != nil {
		t.Fatal(err)
	}
}

// TestLostEndIsRefused: a log whose newest messages are gone is not used, because
// machines that are done would be installed again, until an operator says so.
func TestLostEndIsRefused(t *testing.T) {
	harms := map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"cut short": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
	}
	dir := t.TempDir()
	r, _, stop := embedded(t, dir)
	r.ready(t)
	for i := range 10 {
		r.append(t, record(fmt.Sprint(i), v1.StateBooting, 0))
	}
	settle(t, r)
	killed := natstest.CopyRunning(t, dir)
	if err := r.Trim(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	trimmed := natstest.CopyRunning(t, dir)
	stop()
	for state, from := range map[string]string{"stopped": dir, "killed": killed, "trimmed and killed": trimmed} {
		for name, harm := range harms {
			t.Run(name+", "+state, func(t *testing.T) {
				dir := natstest.CopyRunning(t, from)
				if err := harm(lastBlock(t, dir)); err != nil {
					t.Fatal(err)
				}
				for start := range 2 {
					r, lines, stop := embedded(t, dir)
					told := func() bool { // the state changes before the line is written
						return strings.Contains(lines(), "level=ERROR") && strings.Contains(lines(), "glowplug store adopt")
					}
					testkit.Until(t, "the log is refused", func() bool { return isRefused(r.ReadinessCheck()) && told() || r.Loaded() })
					if r.Loaded() {
						t.Fatalf("start %d: the log was loaded, after:\n%s", start, lines())
					}
					if err := r.Append(t.Context(), []Record{record("a", v1.StateBooting, 0)}); !isRefused(err) {
						t.Errorf("start %d: Append: %v", start, err)
					}
					stop()
				}
				if err := os.RemoveAll(filepath.Join(dir, "ledger")); err != nil { // as adopt does
					t.Fatal(err)
				}
				r, _, stop := embedded(t, dir)
				r.ready(t).append(t, record("a", v1.StateBooting, 0))
				stop()
				r, _, _ = embedded(t, dir)
				r.ready(t)
			})
		}
	}
}

// TestLostBeginningIsReported: what is missing before the first message is told from
// what was trimmed.
func TestLostBeginningIsReported(t *testing.T) {
	dir := t.TempDir()
	r, _, stop := embedded(t, dir)
	r.ready(t)
	for i := range 5 {
		r.append(t, record(fmt.Sprint(i), v1.StateBooting, 0))
	}
	if err := r.Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stream, err := r.js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil { // as a loss does
		t.Fatal(err)
	}
	stop()
	r, lines, _ := embedded(t, dir)
	r.ready(t)
	if got := value(t, r.Log); got != 2 || !strings.Contains(lines(), "level=ERROR") {
		t.Errorf("%v messages are lost, want 2:\n%s", got, lines())
	}
}

// TestNoLossNoAlarm: a restart, a kill -9, a trim, and a folder of an earlier release,
// which has no file of the newest sequence, are no loss.
func TestNoLossNoAlarm(t *testing.T) {
	dir := t.TempDir()
	r, _, stop := embedded(t, dir)
	moments := map[string]string{"started": natstest.CopyRunning(t, dir)}
	r.ready(t)
	moments["ready"] = natstest.CopyRunning(t, dir)
	appended := func(n int) {
		for range n {
			r.append(t, record("a", v1.StateBooting, 0))
		}
	}
	trimmed := func(upTo uint64) {
		if err := r.Trim(t.Context(), upTo); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		appended(1)
		moments[fmt.Sprint("appended ", i)] = natstest.CopyRunning(t, dir)
	}
	trimmed(3)
	moments["trimmed"] = natstest.CopyRunning(t, dir)
	trimmed(5)
	moments["all trimmed"] = natstest.CopyRunning(t, dir)
	appended(2)
	moments["appended after it"] = natstest.CopyRunning(t, dir)
	settle(t, r)
	moments["written"] = natstest.CopyRunning(t, dir)
	if err := r.recordFloor(6); err != nil {
		t.Fatal(err)
	}
	moments["about to trim"] = natstest.CopyRunning(t, dir)
	trimmed(7)
	stop()
	moments["stopped"] = dir
	for name, from := range moments {
		for _, earlier := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", of an earlier release ", earlier), func(t *testing.T) {
				dir := natstest.CopyRunning(t, from)
				if earlier {
					if err := os.RemoveAll(filepath.Join(dir, "ledger")); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					r, lines, stop := embedded(t, dir)
					r.ready(t).append(t, record("b", v1.StateBooting, 0))
					if strings.Contains(lines(), "level=ERROR") {
						t.Error(lines())
					}
					stop()
				}
			})
		}
	}
}

// TestFloorIsRecordedBeforeTheTrim: what was trimmed must not look lost after a crash.
func TestFloorIsRecordedBeforeTheTrim(t *testing.T) {
	dir := t.TempDir()
	r, _, _ := embedded(t, dir)
	r.ready(t).append(t, record("a", v1.StateBooting, 0))
	settle(t, r)
	if err := os.RemoveAll(filepath.Join(dir, "ledger")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ledger"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.keys.Replace(time.Now(), map[string]keylog.Record{}, 1) // so that the file has to be written again
	if err := r.Trim(t.Context(), 1); err == nil {
		t.Error("the log is trimmed, and nobody would know")
	}
	stream, err := r.js.Stream(t.Context(), Stream)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%v, %+v", err, stream)
	}
}
