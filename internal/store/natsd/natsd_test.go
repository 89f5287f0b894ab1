package natsd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"glowplug/internal/store/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		s := start(t, dir)
		nc, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "B"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
			if s.Has("B") {
				t.Error("a bucket is known that nobody recorded")
			}
			if err := errors.Join(s.Add("B"), s.Reach("B", 7)); err != nil {
				t.Fatal(err)
			}
		} else {
			kv, err := js.KeyValue(t.Context(), "B")
			if err != nil {
				t.Fatal(err)
			}
			if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
				t.Errorf("after the restart: %v, %v", e, err)
			}
			if !s.Has("B") || s.Reached("B") != 7 {
				t.Errorf("the ledger forgot: %v, %d", s.Has("B"), s.Reached("B"))
			}
		}
		stop(t, s)
	}
}

func TestSecondProcessIsToldWhoHolds(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	_, err := Start(t.Context(), Options{DataDir: dir})
	var locked *ledger.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("a second start gives %v", err)
	}
	if want := fmt.Sprintf("pid %d on ", os.Getpid()); !strings.HasPrefix(locked.Holder, want) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("the holder is not named: %v", err)
	}
	stop(t, s)
	stop(t, start(t, dir))
}

func TestLedgerAndDataBelongTogether(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"the record is missing": {
			func(dir string) error { return os.Remove(filepath.Join(dir, "store.json")) }, "its record",
		},
		"the data is missing": {
			func(dir string) error { return os.RemoveAll(filepath.Join(dir, "nats")) }, "is empty",
		},
		"the record is damaged": {
			func(dir string) error { return os.WriteFile(filepath.Join(dir, "store.json"), []byte("{"), 0o600) }, "is damaged",
		},
		"the record is from the future": {
			func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "store.json"), []byte(`{"version":99}`), 0o600)
			}, "another release",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, dir)
			if err := s.Add("B"); err != nil {
				t.Fatal(err)
			}
			stop(t, s)
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Start(t.Context(), Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("start gives %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestDialDoesNotWait(t *testing.T) {
	began := time.Now()
	nc, err := Dial("nats://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if err := nc.Publish("x", nil); err == nil {
		t.Error("a message was buffered for nobody")
	}
	if _, err := Dial("nats://%zz", nil); err == nil {
		t.Error("a bad URL is taken")
	}
}
