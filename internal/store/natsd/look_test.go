package natsd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// contentOf returns what a data directory has: every path, with the digest of a file. The
// lock says who has the directory, and is written by everybody who opens it.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "store.lock" {
			return err
		}
		found[path] = "folder"
		if !e.IsDir() {
			raw, err := os.ReadFile(filepath.Join(dir, path))
			found[path] = fmt.Sprintf("%x", sha256.Sum256(raw))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLookChangesNothing: whoever looks at a store leaves the data directory as it was.
func TestLookChangesNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(t *testing.T, dir string)
		err    string
	}{
		{"a good store", func(*testing.T, string) {}, ""},
		{"no copies", dropCopies, ""},
		{"no record", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "store.json")) }, ""},
		{"no store", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "nats")) }, ""},
		{"an empty folder", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "nats"))
			if err := os.Mkdir(filepath.Join(dir, "nats"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a damaged record", func(t *testing.T, dir string) {
			record(t, dir, "HOSTS", 1)
			spoilRecord(t, dir, "KV_HOSTS", 0, 40, false)
		},
			"the bucket HOSTS is damaged: in its file "},
		{"a damaged bucket that has a copy", spoilSum, "the bucket HOSTS is damaged: its file "},
		{"a damaged bucket", func(t *testing.T, dir string) { dropCopies(t, dir); spoilSum(t, dir) },
			"the bucket HOSTS is damaged: its file "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", t.TempDir())
			fill(t, dir, "HOSTS")
			test.before(t, dir)
			before := contentOf(t, dir)
			s, err := Start(t.Context(), Options{DataDir: dir, Look: true})
			switch {
			case err == nil:
				stop(t, s)
			case test.err == "" || !strings.HasPrefix(err.Error(), test.err):
				t.Errorf("looking: %v", err)
			}
			if err == nil && test.err != "" {
				t.Error("a damaged store was opened")
			}
			if after := contentOf(t, dir); !maps.Equal(before, after) {
				t.Errorf("before %v\nafter  %v", before, after)
			}
			if left := contentOf(t, os.Getenv("TMPDIR")); len(left) > 1 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// spoilSum damages the checksum of the bucket HOSTS.
func spoilSum(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(bucketFolder(dir, "HOSTS"), sumFile)
	if err := os.WriteFile(path, []byte("0000000000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedStartChangesNothing: a start that is refused, because of a wrong key say, leaves the data
// directory as it was, the copies in the ledger and damaged buckets included.
func TestRefusedStartChangesNothing(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "HOSTS", "CONFIGS")
	dropCopies(t, dir)
	spoilSum(t, dir)
	before := contentOf(t, dir)
	no := errors.New("the key is another one")
	_, err := Start(t.Context(), Options{DataDir: dir, Accept: func(metadata func(string) map[string]string) error {
		if metadata("CONFIGS") == nil || metadata("HOSTS") != nil || metadata("NONE") != nil {
			t.Errorf("the metadata is %v, %v and %v", metadata("CONFIGS"), metadata("HOSTS"), metadata("NONE"))
		}
		return no
	}})
	if !errors.Is(err, no) {
		t.Errorf("the start gives %v", err)
	}
	if after := contentOf(t, dir); !maps.Equal(before, after) {
		t.Errorf("before:\n%v\nafter:\n%v", before, after)
	}
}
