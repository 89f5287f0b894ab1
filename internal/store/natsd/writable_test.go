package natsd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFailedWriteIsSaid: a file system turns read-only, as ext4 does after an error of its disk. The data
// directory says so at once. The NATS server does not answer a write that its disk refuses, nor any later
// one of the stream; after one that was under way the store says that, too.
func TestFailedWriteIsSaid(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Skipf("needs an ext4 file system to break: %s %v: %v %s", name, args, err, out)
		}
	}
	command("truncate", "-s", "64M", disk+".img")
	command("mkfs.ext4", "-q", "-F", disk+".img")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	command("mount", "-o", "loop,errors=remount-ro", disk+".img", disk)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	s := start(t, disk)
	defer stop(t, s)
	js := connected(t, s)
	if _, err := js.CreateStream(t.Context(), newStream("SECRETS", 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(); err != nil {
		t.Fatal(err)
	}
	command("mount", "-o", "remount,abort", disk)
	if err := s.Ledger.Writable(); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("a data directory that cannot be written: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := js.Publish(ctx, "SECRETS.k", []byte("v")); err == nil {
		t.Error("a write to a read-only file system is answered")
	}
	if failed := s.failed.Load(); failed == nil || !strings.Contains((*failed).Error(), "restart the server") {
		t.Errorf("the failed write is not said: %v", failed)
	}
}
