package keyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/logs/logstest"
)

// TestFollow: a change is taken once it has been seen twice; what cannot be read or
// makes no sense leaves what was there before, and is logged once.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "one")
	taken := ""
	log, logged := logstest.Logger()
	f, err := Follow(Secret, path, log, func(content []byte) error {
		if strings.HasPrefix(string(content), "bad") {
			return errors.New("it makes no sense")
		}
		taken = string(content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(times int, want string, changes int) {
		t.Helper()
		changed := 0
		for range times {
			if f.readAgain() {
				changed++
			}
		}
		if taken != want || changed != changes {
			t.Errorf("taken %q with %d changes, want %q with %d", taken, changed, want, changes)
		}
	}
	look(2, "one", 0)
	write(t, path, "tw")
	look(1, "one", 0)
	write(t, path, "two") // it was half written
	look(1, "one", 0)
	look(2, "two", 1)
	write(t, path, "bad")
	look(5, "two", 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(5, "two", 0)
	write(t, path, "three")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	look(5, "two", 0)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	look(5, "three", 1)
	for _, want := range []string{"it makes no sense", "no such file", "anybody may write it", "chmod 0600 "} {
		if strings.Count(logged(), want) != 1 {
			t.Errorf("%q is not logged once:\n%s", want, logged())
		}
	}
	if strings.Contains(logged(), "three") {
		t.Errorf("a content is logged:\n%s", logged())
	}
}

// TestReadLine: one line, with or without its end.
func TestReadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for content, want := range map[string]string{"x": "x", "x\n": "x", " x \r\n": " x ", "": "", "\n": "", "x\ny\n": ""} {
		write(t, path, content)
		if line, err := ReadLine(path); line != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v", content, line, err)
		}
	}
}
