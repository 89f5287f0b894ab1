package keyfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesOfRootAreGivenToTheServer: what root makes in the folder of another user becomes that user's; what a link
// points to does not.
func TestFilesOfRootAreGivenToTheServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files for other users")
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	made := filepath.Join(dir, "nats", "a.blk")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Chown(dir, 4711, 4712), os.MkdirAll(filepath.Dir(made), 0o700),
		os.WriteFile(made, nil, 0o600), os.WriteFile(outside, nil, 0o600), os.Symlink(outside, link),
		GiveTree(dir)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{made: 4711, filepath.Dir(made): 4711, link: 4711, outside: 0} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if owner, _, ok := ownership(info); !ok || owner != want {
			t.Errorf("%s is of user %d, want %d", path, owner, want)
		}
	}
}
