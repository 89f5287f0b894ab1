package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/ledger"
)

// newBuckets are those that a first start makes, in the shapes that there are: a KV bucket that begins
// at revision 2, for which NATS writes a tombstone and exchanges the folder of the blocks; the
// identity; and the boot log, which is no bucket.
var newBuckets = []struct {
	name     string
	firstSeq uint64
}{{"SECRETS", 2}, {ledger.Bucket, 0}, {ledger.StreamPrefix + "BOOTSTATES", 0}}

func newStream(name string, firstSeq uint64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: ledger.StreamOf(name), Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, FirstSeq: firstSeq,
	}
}

// creation are the steps in which the NATS server makes a stream, each as a change of the
// finished folder: what the later steps make is not there yet. The order is that of its file operations.
func creation(finished func(name string) []byte) []func(folder string) error {
	write := func(name string, content []byte) func(string) error {
		return func(folder string) error { return os.WriteFile(filepath.Join(folder, name), content, 0o600) }
	}
	folder := func(name string) func(string) error {
		return func(folder string) error { return os.MkdirAll(filepath.Join(folder, name), 0o700) }
	}
	move := func(from, to string) func(string) error {
		return func(folder string) error { return os.Rename(filepath.Join(folder, from), filepath.Join(folder, to)) }
	}
	remove := func(name string) func(string) error {
		return func(folder string) error { return os.RemoveAll(filepath.Join(folder, name)) }
	}
	steps := []func(string) error{
		folder("."), write("_test_1", nil), remove("_test_1"), folder("msgs"), folder("obs"),
	}
	if block := finished("msgs/2.blk"); block != nil {
		steps = append(steps,
			write("msgs/1.blk", nil), write("msgs/2.blk", nil), write("msgs/2.blk", block[:7]), write("msgs/2.blk", block),
			folder("__new_msgs__"), move("msgs/2.blk", "__new_msgs__/2.blk"), move("msgs", "__msgs__"),
			move("__new_msgs__", "msgs"), remove("__msgs__/1.blk"), remove("__msgs__"))
	}
	inf := finished("meta.inf")
	return append(steps,
		write("meta.inf.tmp", nil), write("meta.inf.tmp", inf[:9]), write("meta.inf.tmp", inf), move("meta.inf.tmp", "meta.inf"),
		write("meta.sum.tmp", nil), write("meta.sum.tmp", finished("meta.sum")), move("meta.sum.tmp", "meta.sum"))
}

// finishedFolder makes a stream, and returns how its files are before anything is written into it.
func finishedFolder(t *testing.T, name string, firstSeq uint64) func(file string) []byte {
	t.Helper()
	dir := t.TempDir()
	s := start(t, dir)
	if _, err := connected(t, s).CreateStream(t.Context(), newStream(name, firstSeq)); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	return func(file string) []byte {
		raw, err := os.ReadFile(filepath.Join(streamsOf(filepath.Join(dir, "nats")), ledger.StreamOf(name), file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return raw
	}
}

// TestUnfinishedCreationIsMadeAgain: a kill at any step of the creation of a bucket, on a new folder
// or beside older buckets, costs nothing: the next start makes the bucket.
func TestUnfinishedCreationIsMadeAgain(t *testing.T) {
	for _, bucket := range newBuckets {
		steps := creation(finishedFolder(t, bucket.name, bucket.firstSeq))
		for _, older := range []bool{false, true} {
			for done := range len(steps) {
				unfinished(t, bucket.name, bucket.firstSeq, older, steps[:done+1])
			}
		}
	}
}

func unfinished(t *testing.T, bucket string, firstSeq uint64, older bool, steps []func(folder string) error) {
	t.Helper()
	dir := t.TempDir()
	if older {
		fill(t, dir, "HOSTS")
	} else {
		stop(t, start(t, dir)) // the record is there before the first bucket
	}
	folder := filepath.Join(streamsOf(filepath.Join(dir, "nats")), ledger.StreamOf(bucket))
	for _, step := range steps {
		if err := step(folder); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, older folder %v, killed after step %d:", bucket, older, len(steps))
		t.Fatalf(format, args...)
	}
	looked, err := Start(t.Context(), Options{DataDir: dir, Look: true})
	if err != nil {
		fail("an operator who looks is refused: %v", err)
	}
	stop(t, looked)
	s := start(t, dir)
	defer stop(t, s)
	if len(s.Damages()) > 0 || s.Lost(bucket) != nil || s.Has(bucket) {
		fail("set aside: %v; recorded: %v", s.Damages(), s.Has(bucket))
	}
	js := connected(t, s)
	stream, err := js.CreateStream(t.Context(), newStream(bucket, firstSeq))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = js.Stream(t.Context(), ledger.StreamOf(bucket))
	}
	if err != nil {
		fail("the bucket cannot be made: %v", err)
	}
	if state := stream.CachedInfo().State; firstSeq > 0 && state.FirstSeq != firstSeq {
		fail("the bucket begins at %d", state.FirstSeq)
	}
	if _, err := js.Publish(t.Context(), bucket+".k", []byte("v")); err != nil {
		fail("the bucket cannot be written: %v", err)
	}
	if older {
		wantValue(t, js, "HOSTS")
	}
}

// TestUsedBucketIsNoUnfinishedCreation: what was ever used is set aside, never removed: a bucket with a
// message, one that the record has, and one that has a key log.
func TestUsedBucketIsNoUnfinishedCreation(t *testing.T) {
	for name, use := range map[string]func(dir string, s *Server) error{
		"a message": func(_ string, s *Server) error {
			_, err := connected(t, s).Publish(t.Context(), "SECRETS.k", []byte("v"))
			return err
		},
		"the record": func(_ string, s *Server) error { return s.Ledger.Add("SECRETS") },
		"a key log": func(dir string, s *Server) error {
			return errors.Join(os.MkdirAll(s.KeyDir(), 0o700), os.WriteFile(ledger.KeyFile(s.KeyDir(), "SECRETS"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, dir)
			if _, err := connected(t, s).CreateStream(t.Context(), newStream("SECRETS", 2)); err != nil {
				t.Fatal(err)
			}
			if err := use(dir, s); err != nil {
				t.Fatal(err)
			}
			stop(t, s)
			if err := os.Remove(filepath.Join(bucketFolder(dir, "SECRETS"), "meta.sum")); err != nil {
				t.Fatal(err)
			}
			s = start(t, dir)
			defer stop(t, s)
			if d := s.Damages(); len(d) != 1 || !d[0].Lost {
				t.Errorf("set aside: %v", d)
			}
		})
	}
}
