package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRootRestoresTheStoreOfAnotherUser: the commands for the store of a stopped server do their work for root on the
// data directory of the user of the server, as that of a package, and leave all of it to that user.
func TestRootRestoresTheStoreOfAnotherUser(t *testing.T) {
	needs(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	const user = 4711
	s := start(t)
	s.kubectl(configFor("a"), "apply", "-f", "-")
	file := filepath.Join(t.TempDir(), "glowplug.tar.gz")
	command(t, "backup", file, "--server", s.admin(""))
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	each := func(do func(path string) error) {
		t.Helper()
		if err := filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return do(path)
		}); err != nil {
			t.Fatal(err)
		}
	}
	each(func(path string) error { return os.Chown(path, user, user) })
	store := []string{"--data-dir", s.dir}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"fsck", "--stopped"}, "no problem was found"},
		{[]string{"restore", file, "--dry-run"}, "nothing was changed\nnote: the store has objects: a restore of all needs --replace"},
		{[]string{"restore", file}, "--replace writes a backup of them"},
		{[]string{"restore", file, "--only", "ignitionconfigs"}, "is there, and stays as it is"},
		{[]string{"restore", file, "--only", "ign/default/c", "--replace"}, "ignitionconfigs/default/c: replaced"},
		{[]string{"restore", file, "--only", "ignitionconfig/c"}, "the backup has no ignitionconfigs/c (an object of a namespace is"},
		{[]string{"restore", file, "--replace"}, "the former store is saved"},
		{[]string{"store", "adopt", "--dry-run"}, "BAREMETALHOSTS"},
	} {
		out, _ := exec.CommandContext(t.Context(), program, append(c.args, store...)...).CombinedOutput()
		if !strings.Contains(string(out), c.says) {
			t.Errorf("%s does not say %q: %s", strings.Join(c.args, " "), c.says, out)
		}
		each(func(path string) error {
			info, err := os.Lstat(path)
			if err == nil && info.Sys().(*syscall.Stat_t).Uid != user {
				t.Errorf("%s leaves %s to another user", strings.Join(c.args, " "), path)
			}
			return err
		})
	}
}

// TestRestoreOverADamagedStore: where a bucket is damaged, a restore says where the files of the store are, and of no
// backup that there is not.
func TestRestoreOverADamagedStore(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(configFor("a"), "apply", "-f", "-")
	file := filepath.Join(t.TempDir(), "glowplug.tar.gz")
	command(t, "backup", file, "--server", s.admin(""))
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	streams := filepath.Join(s.dir, "nats", "jetstream", "$G", "streams")
	blocks, _ := filepath.Glob(filepath.Join(streams, "KV_IGNITIONCONFIGS", "msgs", "*.blk"))
	if len(blocks) == 0 {
		t.Fatal("the bucket has no file")
	}
	flipByte(t, blocks[0])
	fsck, _ := exec.CommandContext(t.Context(), program, "fsck", "--stopped", "--data-dir", s.dir).CombinedOutput()
	if !strings.Contains(string(fsck), "\n1 problem\n") || !strings.Contains(string(fsck), "restore FILE --replace") {
		t.Errorf("%s", fsck)
	}
	out := command(t, "restore", file, "--data-dir", s.dir, "--replace")
	kept, _ := filepath.Glob(filepath.Join(s.dir, "former-*"))
	if len(kept) != 1 || !strings.Contains(out, "its files are kept in "+kept[0]) || strings.Contains(out, "is saved") {
		t.Errorf("%v are kept: %s", kept, out)
	}
	if out := command(t, "fsck", "--stopped", "--data-dir", s.dir); !strings.Contains(out, "no problem was found") {
		t.Error(out)
	}
}
