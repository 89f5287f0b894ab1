package natsd

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/logs/logstest"
)

// startLogged starts a server and gives what it logs.
func startLogged(t *testing.T, dir string) (*Server, *logstest.Buffer) {
	t.Helper()
	log := &logstest.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	s, err := Start(t.Context(), Options{DataDir: dir, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s, log
}

// A damaged meta file is restored from the copy, which is there from the moment the
// bucket is recorded, and the log says so.
func TestDamagedMetaFileIsRestoredFromItsCopy(t *testing.T) {
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, "HOSTS", "CONFIGS")
			before, err := readMeta(bucketFolder(dir, "HOSTS"), "KV_HOSTS")
			if err := errors.Join(err, spoil(bucketFolder(dir, "HOSTS"))); err != nil {
				t.Fatal(err)
			}
			s, log := startLogged(t, dir)
			if s.Lost("HOSTS") != nil || len(s.Damages()) > 0 {
				t.Errorf("set aside: %v", s.Damages())
			}
			for _, want := range []string{"level=ERROR", "restored from a copy", "bucket=HOSTS", "meta."} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log has no %q:\n%s", want, log)
				}
			}
			wantValue(t, connected(t, s), "HOSTS")
			wantValue(t, connected(t, s), "CONFIGS")
			after, err := readMeta(bucketFolder(dir, "HOSTS"), "KV_HOSTS")
			if err != nil || !bytes.Equal(before.description, after.description) {
				t.Errorf("the description is %s, %v; want %s", after.description, err, before.description)
			}
		})
	}
}

// The server replaces meta.inf and then meta.sum. A kill between, while a bucket is
// updated, costs the update that nobody was told of, and nothing else.
func TestKillDuringAnUpdateKeepsTheBucket(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "HOSTS")
	sum := filepath.Join(bucketFolder(dir, "HOSTS"), "meta.sum")
	former, err := os.ReadFile(sum)
	if err != nil {
		t.Fatal(err)
	}
	update := func(s *Server) {
		t.Helper()
		js := connected(t, s)
		stream, err := js.Stream(t.Context(), "KV_HOSTS")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		if cfg.Metadata["glowplug-cleaned"] != "" {
			t.Fatalf("the update is there already: %v", cfg.Metadata)
		}
		cfg.Metadata = map[string]string{"glowplug-cleaned": "7"}
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, dir)
	update(s)
	stop(t, s)
	if err := os.WriteFile(sum, former, 0o600); err != nil { // as the kill left it
		t.Fatal(err)
	}

	s = start(t, dir)
	if len(s.Damages()) > 0 {
		t.Fatalf("set aside: %v", s.Damages())
	}
	wantValue(t, connected(t, s), "HOSTS")
	update(s)
	stop(t, s)
	s = start(t, dir)
	defer stop(t, s)
	wantValue(t, connected(t, s), "HOSTS")
	stream, err := connected(t, s).Stream(t.Context(), "KV_HOSTS")
	if err != nil || stream.CachedInfo().Config.Metadata["glowplug-cleaned"] != "7" {
		t.Errorf("the update that was done again is lost: %v", err)
	}
	if m, err := readMeta(copyOf(s.Ledger, "KV_HOSTS"), "KV_HOSTS"); err != nil || !bytes.Contains(m.description,
		[]byte("glowplug-cleaned")) {
		t.Errorf("a start has not renewed the copy: %s, %v", m.description, err)
	}
}

// A copy that is damaged itself is not used.
func TestDamagedCopyIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "HOSTS")
	for _, folder := range []string{bucketFolder(dir, "HOSTS"), filepath.Join(dir, "ledger", "meta", "KV_HOSTS")} {
		if err := flip(filepath.Join(folder, "meta.inf")); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := startLogged(t, dir)
	if err := s.Lost("HOSTS"); err == nil {
		t.Errorf("the bucket is lost: %v", err)
	}
	if _, err := connected(t, s).KeyValue(t.Context(), "HOSTS"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the bucket: %v", err)
	}
}
