package ledger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A data directory belongs to one process, for an external store as well: two
// servers would overwrite each other's record.
func TestSecondServerOnADataDirectoryIsRefused(t *testing.T) {
	for name, data := range map[string]string{"external": "", "embedded": "nats"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opts := Options{}
			if data != "" {
				opts.Data = dir + "/" + data
			}
			first, err := Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(dir, Options{})
			var locked *LockedError
			if !errors.As(err, &locked) || !strings.HasPrefix(locked.Holder, fmt.Sprintf("pid %d on ", os.Getpid())) {
				t.Errorf("a second server gets %v", err)
			}
			first.Close()
			again, err := Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

// TestRemovedLockKeepsOthersOut: the lock is on the folder as well, so that a second server is refused
// after the file was removed or replaced; and the first one notices it.
func TestRemovedLockKeepsOthersOut(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("pid 1 on elsewhere\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			if err := l.Writable(); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir + "/store.lock"); err != nil {
				t.Fatal(err)
			}
			second, err := Open(dir, Options{})
			if !errors.As(err, new(*LockedError)) {
				t.Errorf("a second server gets %v", err)
			}
			if err == nil {
				second.Close()
			}
			if err := l.Writable(); err == nil || !strings.Contains(err.Error(), "restart this one") {
				t.Errorf("the first server writes on: %v", err)
			}
		})
	}
}

func TestRecordSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if err := errors.Join(l.join("ID"), l.Add("B"), l.Add("A"), l.Add("A"), l.Reach("A", 7), l.Reach("A", 5)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, dir)
	if !l.Has("A") || !l.Has("B") || l.Has("C") || l.Reached("A") != 5 || l.Reached("B") != 0 || l.snapshot().ID != "ID" {
		t.Errorf("after a restart: %+v", l.snapshot())
	}
}

func TestDamagedRecordIsReported(t *testing.T) {
	for content, want := range map[string]string{"{": "is damaged", `{"version":99}`: "another release",
		"": "is damaged"} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/store.json", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("record %q: %v, want an error with %q", content, err, want)
		}
		l, err := Open(dir, Options{Repair: true})
		if err != nil {
			t.Fatalf("record %q cannot be opened for repair: %v", content, err)
		}
		l.Close()
	}
}
