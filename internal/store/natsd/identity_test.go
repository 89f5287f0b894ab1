package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/ledger"
)

// guard starts the store of a data directory and asks the guard, after work on it.
func guard(t *testing.T, dir string, work func(*Server, jetstream.JetStream)) error {
	t.Helper()
	s := start(t, dir)
	defer stop(t, s)
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if work != nil {
		work(s, js)
	}
	return ledger.NewKeeper(s.Ledger, ledger.KeeperOptions{Buckets: []string{"B"}}).Guard(t.Context(), js)
}

// put stores n values and records them, as a server does.
func put(t *testing.T, n int) func(*Server, jetstream.JetStream) {
	return func(s *Server, js jetstream.JetStream) {
		t.Helper()
		kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "B"})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			rev, err := kv.Put(t.Context(), "k", []byte("v"))
			if err := errors.Join(err, s.Add("B"), s.Reach("B", rev)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A data directory of a release without identities gets one, without a step of the
// operator.
func TestUpgradeFromARecordWithoutIdentity(t *testing.T) {
	dir := t.TempDir()
	if err := guard(t, dir, put(t, 3)); err != nil {
		t.Fatal(err)
	}
	// As the former release left it: the identity is in no place.
	record := filepath.Join(dir, "store.json")
	if err := os.WriteFile(record,
		[]byte(`{"version":1,"created":"2026-01-02T03:04:05Z","buckets":["B"],"revisions":{"B":3}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := guard(t, dir, func(_ *Server, js jetstream.JetStream) {
		if err := js.DeleteStream(t.Context(), "KV_GLOWPLUG"); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatalf("the upgrade gives %v", err)
	}
	raw, err := os.ReadFile(record)
	if err != nil || !strings.Contains(string(raw), `"version": 2`) || !strings.Contains(string(raw), `"id": "`) ||
		!strings.Contains(string(raw), "2026-01-02") {
		t.Errorf("the record is %s, %v", raw, err)
	}
	if err := guard(t, dir, nil); err != nil {
		t.Errorf("the next start gives %v", err)
	}
}

// The folder of the embedded store is exchanged for another store's, or for an
// older state of its own.
func TestExchangedFolderIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		source func(t *testing.T, own string) string
		want   string
	}{
		"foreign": {func(t *testing.T, _ string) string {
			other := t.TempDir()
			if err := guard(t, other, put(t, 9)); err != nil {
				t.Fatal(err)
			}
			return other
		}, "NATS holds store "},
		"older": {func(t *testing.T, own string) string {
			older := t.TempDir()
			if err := os.CopyFS(older, os.DirFS(own)); err != nil {
				t.Fatal(err)
			}
			if err := guard(t, own, put(t, 4)); err != nil {
				t.Fatal(err)
			}
			return older
		}, "B is at revision 2 and had reached 6"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := guard(t, dir, put(t, 2)); err != nil {
				t.Fatal(err)
			}
			source := c.source(t, dir)
			folder := filepath.Join(dir, "nats")
			if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(filepath.Join(source, "nats")))); err != nil {
				t.Fatal(err)
			}
			err := guard(t, dir, nil)
			if !errors.As(err, new(*ledger.Mismatch)) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the guard says %v, want a mismatch with %q", err, c.want)
			}
		})
	}
}
