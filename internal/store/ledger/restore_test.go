package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/store/natsd/natstest"
)

// layFiles writes files below a folder.
func layFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// storeFiles are the files of a store, whose content says which one it is.
func storeFiles(which string) map[string]string {
	return map[string]string{
		"nats/jetstream/a.blk": which, "ledger/A.keys": which, "pki/ca.key": which,
		"store.json": fmt.Sprintf(`{"version":2,"store":"embedded","id":%q,"buckets":["A"]}`, which),
	}
}

// isStore checks that all files are those of one store.
func isStore(t *testing.T, dir, which string) {
	t.Helper()
	for name, want := range storeFiles(which) {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, not of the %s store: %v", name, got, which, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, builtDir)); err == nil {
		t.Errorf("the folder %s is left", builtDir)
	}
}

// TestReplaceGoesOnWhereItWasBrokenOff: before the built store is complete a directory has the former store; from then
// on it has the built one, whatever step the replacement had reached when the power went.
func TestReplaceGoesOnWhereItWasBrokenOff(t *testing.T) {
	opened := func(dir string) {
		t.Helper()
		l, err := Open(dir, Options{Data: filepath.Join(dir, "nats")})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	dir := t.TempDir()
	layFiles(t, dir, storeFiles("former"))
	building, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	layFiles(t, building.Dir, storeFiles("built"))
	building.lock.unlock() // as when the process is killed
	opened(dir)
	isStore(t, dir, "former")

	for _, keep := range []string{"", "former-1"} {
		for moved := range 5 {
			for _, cleared := range []bool{false, true} {
				dir := t.TempDir()
				layFiles(t, dir, storeFiles("former"))
				built := filepath.Join(dir, builtDir)
				layFiles(t, built, storeFiles("built"))
				if keep != "" {
					layFiles(t, built, map[string]string{replacedFile: keep})
				}
				parts := append(storeParts, filepath.Join("pki", "ca.key"))
				for i, part := range parts[:min(moved+1, len(parts))] {
					if i < moved || cleared { // the former part is away; the new one may not be there yet
						if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
							t.Fatal(err)
						}
					}
					if i < moved {
						if err := os.Rename(filepath.Join(built, part), filepath.Join(dir, part)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !Holds(dir) {
					t.Errorf("after %d parts there is no store", moved)
				}
				opened(dir)
				isStore(t, dir, "built")
			}
		}
	}
}

// TestReplaceKeepsOrRemovesTheFormerStore: the key logs of the former store go as well, although the built one has
// none.
func TestReplaceKeepsOrRemovesTheFormerStore(t *testing.T) {
	for _, keep := range []string{"", "former-1"} {
		dir := t.TempDir()
		layFiles(t, dir, storeFiles("former"))
		building, err := Build(dir)
		if err != nil {
			t.Fatal(err)
		}
		files := storeFiles("built")
		delete(files, "ledger/A.keys")
		layFiles(t, building.Dir, files)
		if err := errors.Join(building.Replace(keep), building.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "ledger", "A.keys")); err == nil {
			t.Error("the key log of the former store is left")
		}
		kept, err := os.ReadFile(filepath.Join(dir, "former-1", "nats", "jetstream", "a.blk"))
		if (err == nil) != (keep != "") || keep != "" && string(kept) != "former" {
			t.Errorf("keep %q: %q %v", keep, kept, err)
		}
	}
}

// TestBuildNeedsTheDirectoryForItself: the store of a running server is not replaced, none is started meanwhile, and
// two restores do not build in one folder.
func TestBuildNeedsTheDirectoryForItself(t *testing.T) {
	locked := func(name string, err error) {
		t.Helper()
		if !errors.As(err, new(*LockedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	open(t, dir)
	_, err := Build(dir)
	locked("a running server", err)
	dir = filepath.Join(t.TempDir(), "new", "data")
	building, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	layFiles(t, building.Dir, storeFiles("built"))
	_, err = Build(dir)
	locked("another restore", err)
	_, err = Open(dir, Options{Data: filepath.Join(dir, "nats")})
	locked("a start", err)
	if err := errors.Join(building.Replace(""), building.Close()); err != nil {
		t.Fatal(err)
	}
	isStore(t, dir, "built")
}

// TestUnfinishedRestoreIsNoStore: no server follows an external store while a backup is restored into it, or after that
// was broken off, and no operator adopts it; at the end it is another store than before.
func TestUnfinishedRestoreIsNoStore(t *testing.T) {
	js := natstest.Start(t).JetStream()
	dir := t.TempDir()
	l := open(t, dir)
	fill(t, js, l, "A", 3)
	former := l.ID()
	k := keep(l)
	if err := k.BeginRestore(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	for _, directory := range []*Ledger{l, open(t, t.TempDir())} {
		var m *Mismatch
		if err := keep(directory).Guard(t.Context(), js); !errors.As(err, &m) ||
			!strings.Contains(m.Reason, "a backup is being restored into this store since ") {
			t.Errorf("a server is told: %v", err)
		}
	}
	s, err := k.Survey(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Unrestored() || s.CheckAdopt() == nil || s.CheckInit() == nil {
		t.Errorf("%+v", s)
	}
	if err := k.BeginRestore(t.Context(), js); err != nil {
		t.Errorf("another attempt: %v", err)
	}
	id, err := k.EndRestore(t.Context(), js)
	if err != nil || id == former || id != l.ID() {
		t.Errorf("%q, was %q: %v", id, former, err)
	}
	if err := k.Guard(t.Context(), js); err != nil {
		t.Error(err)
	}
}
