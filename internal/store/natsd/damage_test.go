package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// bucketFolder is where a bucket of a data directory lies.
func bucketFolder(dir, bucket string) string {
	return filepath.Join(dir, "nats", "jetstream", "$G", "streams", "KV_"+bucket)
}

// fill makes a data directory with buckets of one key each.
func fill(t *testing.T, dir string, buckets ...string) {
	t.Helper()
	s := start(t, dir)
	defer stop(t, s)
	js := connected(t, s)
	for _, bucket := range buckets {
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.PutString(t.Context(), "k", bucket); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(bucket); err != nil {
			t.Fatal(err)
		}
	}
}

// dropCopies removes the copies of the meta files.
func dropCopies(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "ledger", "meta")); err != nil {
		t.Fatal(err)
	}
}

func connected(t *testing.T, s *Server) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// spoils are the ways to damage the meta files in a bucket's folder.
var spoils = map[string]func(folder string) error{
	"meta.inf is flipped":   func(f string) error { return flip(filepath.Join(f, "meta.inf")) },
	"meta.inf is empty":     func(f string) error { return os.Truncate(filepath.Join(f, "meta.inf"), 0) },
	"meta.inf is removed":   func(f string) error { return os.Remove(filepath.Join(f, "meta.inf")) },
	"meta.sum is flipped":   func(f string) error { return flip(filepath.Join(f, "meta.sum")) },
	"meta.sum is cut short": func(f string) error { return os.Truncate(filepath.Join(f, "meta.sum"), 7) },
	"meta.sum is removed":   func(f string) error { return os.Remove(filepath.Join(f, "meta.sum")) },
}

// TestDamagedMetaFileDoesNotStopTheServer: without a copy of the file the bucket is set aside at once, with
// its file and the remedy named; the others are there, and what was set aside can
// be put back.
func TestDamagedMetaFileDoesNotStopTheServer(t *testing.T) {
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, "HOSTS", "CONFIGS")
			dropCopies(t, dir)
			if err := spoil(bucketFolder(dir, "HOSTS")); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s := start(t, dir)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the start took %v", took)
			}
			var damage *Damage
			if err := s.Lost("HOSTS"); !errors.As(err, &damage) || damage.Reason == nil {
				t.Fatalf("the bucket is lost: %v", err)
			}
			for _, want := range []string{"HOSTS", "meta.", "backup", "accept-loss", damage.Aside} {
				if !strings.Contains(damage.Error(), want) {
					t.Errorf("there is no %q in: %v", want, damage)
				}
			}
			if !s.Has("HOSTS") || s.Lost("CONFIGS") != nil {
				t.Errorf("recorded: %v; the other bucket: %v", s.Has("HOSTS"), s.Lost("CONFIGS"))
			}
			js := connected(t, s)
			if _, err := js.KeyValue(t.Context(), "HOSTS"); !errors.Is(err, jetstream.ErrBucketNotFound) {
				t.Errorf("the damaged bucket: %v", err)
			}
			wantValue(t, js, "CONFIGS")
			stop(t, s)

			s = start(t, dir) // the alarm lasts
			if s.Lost("HOSTS") == nil {
				t.Error("the second start knows of no damage")
			}
			stop(t, s)
			putBack(t, damage)
			s = start(t, dir)
			defer stop(t, s)
			if s.Lost("HOSTS") != nil || len(s.Damages()) > 0 {
				t.Errorf("after it was put back: %v", s.Damages())
			}
			wantValue(t, connected(t, s), "HOSTS")
		})
	}
}

// putBack does what the message says: the meta files of a new data directory, and
// the folder where it belongs.
func putBack(t *testing.T, d *Damage) {
	t.Helper()
	fresh := t.TempDir()
	fill(t, fresh, d.Bucket)
	for _, name := range []string{"meta.inf", "meta.sum"} {
		raw, err := os.ReadFile(filepath.Join(bucketFolder(fresh, d.Bucket), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.Aside, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(d.Aside, d.Home); err != nil {
		t.Fatal(err)
	}
}

// TestTransientBucketIsSetAsideForGood: a damaged bucket that holds nothing
// lasting makes room for a new one, and its folder stays, with an alarm.
func TestTransientBucketIsSetAsideForGood(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "EVENTS", "HOSTS")
	dropCopies(t, dir)
	if err := flip(filepath.Join(bucketFolder(dir, "EVENTS"), "meta.inf")); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{DataDir: dir, Transient: []string{"EVENTS"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	if s.Has("EVENTS") || s.Lost("EVENTS") != nil || !s.Has("HOSTS") {
		t.Errorf("EVENTS is recorded: %v, lost: %v; HOSTS is recorded: %v", s.Has("EVENTS"), s.Lost("EVENTS"), s.Has("HOSTS"))
	}
	if d := s.Damages(); len(d) != 1 || d[0].Bucket != "EVENTS" || !strings.Contains(d[0].Error(), "takes its place") {
		t.Errorf("the damages: %v", d)
	} else if blocks, err := os.ReadDir(filepath.Join(d[0].Aside, "msgs")); err != nil || len(blocks) == 0 {
		t.Errorf("what was set aside: %v, %v", blocks, err)
	}
	wantValue(t, connected(t, s), "HOSTS")
	for _, d := range s.Damages() {
		if !d.Lasts() {
			t.Error("the damage ends while the folder is there")
		}
		if remove(t, d.Aside); d.Lasts() {
			t.Error("the damage lasts after the folder was removed")
		}
	}
}

// TestBucketThatWasSetAsideStaysLost: nothing takes the place of a damaged bucket, also
// after an operator has adopted the rest of the store, which empties the record.
func TestBucketThatWasSetAsideStaysLost(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "CONFIGS", "HOSTS")
	dropCopies(t, dir)
	spoilSum(t, dir)
	stop(t, start(t, dir))
	remove(t, filepath.Join(dir, "store.json"))

	looked, err := Start(t.Context(), Options{DataDir: dir, Look: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := looked.Damages(); len(d) != 1 || !d[0].Lost || looked.Has("HOSTS") {
		t.Errorf("an operator who looks sees %v; the record has the bucket: %v", d, looked.Has("HOSTS"))
	}
	stop(t, looked)

	s, err := Start(t.Context(), Options{DataDir: dir, Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	if s.Lost("HOSTS") == nil || !s.Has("HOSTS") {
		t.Errorf("lost: %v; the record has the bucket: %v", s.Lost("HOSTS"), s.Has("HOSTS"))
	}
}

func wantValue(t *testing.T, js jetstream.JetStream, bucket string) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != bucket {
		t.Errorf("the bucket %s: %v, %v", bucket, e, err)
	}
}

// flip changes a bit in the middle of a file.
func flip(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 1
	return os.WriteFile(path, raw, 0o600)
}
