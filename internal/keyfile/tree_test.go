package keyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	link, second := filepath.Join(dir, "link"), filepath.Join(filepath.Dir(dir), "second")
	if err := errors.Join(os.Chown(dir, 4711, 4712), os.MkdirAll(filepath.Dir(made), 0o700),
		os.WriteFile(made, nil, 0o600), os.WriteFile(outside, nil, 0o600), os.Symlink(outside, link),
		os.WriteFile(second, nil, 0o600), os.Link(second, filepath.Join(dir, "second")),
		GiveTree(dir)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{made: 4711, filepath.Dir(made): 4711, link: 4711, outside: 0, second: 0} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if owner, _, ok := ownership(info); !ok || owner != want {
			t.Errorf("%s is of user %d, want %d", path, owner, want)
		}
	}
}

// TestRootSeesWhatTheServerSees: a command that root runs on the data directory of a server takes the files of the
// server's user and those of root, and no others.
func TestRootSeesWhatTheServerSees(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	dir := t.TempDir()
	own, roots, foreign := filepath.Join(dir, "own"), filepath.Join(dir, "roots"), filepath.Join(dir, "foreign")
	for _, path := range []string{own, roots, foreign} {
		write(t, path, "content")
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 4711, 4712), os.Chown(own, 4711, 4712),
		os.Chown(foreign, 4713, 4712)); err != nil {
		t.Fatal(err)
	}
	for path, refuses := range map[string]string{
		dir: "", own: "", roots: "",
		foreign: "it belongs to user 4713, who is neither root nor the user of this program (4711)",
	} {
		kind := Secret
		if path == dir {
			kind = Folder
		}
		warning, err := CheckOf(dir, kind, path)
		if warning != nil || (err == nil) != (refuses == "") || err != nil && !strings.Contains(err.Error(), refuses) {
			t.Errorf("%s: %v, %v", path, warning, err)
		}
	}
}
