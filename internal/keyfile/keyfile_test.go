package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestModes: each kind of file is refused if every user may write it, and warned of
// where more than its owner may do what its owner alone should.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		kind           Kind
		mode           fs.FileMode
		warns, refuses string
		remedy         string
	}{
		{Secret, 0o600, "", "", ""},
		{Secret, 0o400, "", "", ""},
		{Secret, 0o711, "", "", ""}, // other users cannot read it
		{Secret, 0o640, "its group may read it", "", "chmod 0600 "},
		{Secret, 0o644, "anybody may read it", "", "chmod 0600 "},
		{Secret, 0o660, "its group may read it, and its group may write it", "", "chmod 0600 "},
		{Secret, 0o666, "", "anybody may write it", "chmod 0600 "},
		{Secret, 0o602, "", "anybody may write it", "chmod 0600 "},
		{Secret, 0o777, "", "anybody may write it", "chmod 0600 "},
		{Trusted, 0o644, "", "", ""},
		{Trusted, 0o664, "its group may write it", "", "chmod 0644 "},
		{Trusted, 0o666, "", "anybody may write it", "chmod 0644 "},
		{Folder, 0o700, "", "", ""},
		{Folder, 0o750, "its group may enter it", "", "chmod 0700 "},
		{Folder, 0o755, "anybody may enter it", "", "chmod 0700 "},
		{Folder, fs.ModeSetgid | 0o770, "its group may enter it, and its group may write it", "", "chmod 0700 "},
		{Folder, 0o777, "", "anybody may write it", "chmod 0700 "},
		{Folder, 0o703, "", "anybody may write it", "chmod 0700 "},
		{Folder, fs.ModeSticky | 0o777, "anybody may enter it, and anybody may write it", "", "chmod 0700 "},
		{Inner, 0o755, "", "", ""},
		{Inner, 0o777, "", "anybody may write it", "chmod 0700 "},
	} {
		path := filepath.Join(dir, "x")
		if test.kind == Folder || test.kind == Inner {
			mkdir(t, path)
		} else {
			write(t, path, "content")
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		warning, err := Check(test.kind, path)
		expect(t, test.mode, warning, err, test.warns, test.refuses, test.remedy+path)
		if _, err := Read(test.kind, path); !errors.Is(err, syscall.EISDIR) && (err != nil) != (test.refuses != "") {
			t.Errorf("%v: reading: %v", test.mode, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if warning, err := Check(Secret, filepath.Join(dir, "missing")); warning != nil || err != nil {
		t.Errorf("a missing file: %v %v", warning, err)
	}
	if warning, err := Check(Secret, os.DevNull); warning != nil || err != nil {
		t.Errorf("a device: %v %v", warning, err)
	}
}

// TestForeignOwner: whatever the mode, who owns a file may change it.
func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	path := filepath.Join(t.TempDir(), "token file")
	write(t, path, "content")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Chown(path, 4711, 0), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, link} {
		warning, err := Check(Secret, path)
		expect(t, 0o600, warning, err, "", "it belongs to user 4711", "chown 0 "+quoted(path))
	}
	folder := filepath.Join(t.TempDir(), "data")
	mkdir(t, folder)
	if err := os.Chown(folder, 4711, 0); err != nil {
		t.Fatal(err)
	}
	warning, err := Check(Folder, folder)
	expect(t, 0o700, warning, err, "", "it belongs to user 4711", "chown 0 "+folder)
}

// TestServerWithoutRoot: a server of user 65532 with the group 65532, as Kubernetes
// runs it: what root gives it through that group is in order.
func TestServerWithoutRoot(t *testing.T) {
	server := process{uid: 65532, groups: []int{65532}}
	for _, test := range []struct {
		name           string
		kind           Kind
		file           file
		warns, refuses string
		remedy         string
	}{
		{"a Secret's volume, defaultMode 0400 and fsGroup", Secret, file{0o440, 0, 65532}, "", "", ""},
		{"a Secret's volume, as it is by default", Secret, file{0o644, 0, 65532}, "anybody may read it", "", "chmod 0640 p"},
		{"a credential of systemd, which an access control list gives", Secret, file{0o440, 0, 0}, "", "", ""},
		{"a file of root's that anybody may read", Secret, file{0o644, 0, 0}, "anybody may read it", "",
			"chown 65532 p && chmod 0600 p"},
		{"a secret of root's that the group cannot read", Secret, file{0o644, 0, 7}, "anybody may read it", "",
			"chown 65532 p && chmod 0600 p"},
		{"a volume with fsGroup", Folder, file{fs.ModeSetgid | 0o770, 0, 65532}, "", "", ""},
		{"the same, which anybody may enter", Folder, file{fs.ModeSetgid | 0o775, 0, 65532}, "anybody may enter it", "",
			"chmod 0770 p"},
		{"a volume that anybody may write", Folder, file{0o777, 0, 65532}, "", "anybody may write it", "chmod 0770 p"},
		{"the same, of root's group", Folder, file{0o777, 0, 0}, "", "anybody may write it", "name a folder in it"},
		{"an own file, for a group", Secret, file{0o660, 65532, 65532}, "its group may read it", "", "chmod 0600 p"},
		{"an own file", Secret, file{0o600, 65532, 65532}, "", "", ""},
		{"a file of another user, in our group", Secret, file{0o640, 1000, 65532}, "", "user 1000",
			"run the program as user 1000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			warning, refusal := server.judge(test.kind, "p", test.file)
			var err error
			if refusal != nil {
				err = refusal
			}
			expect(t, test.file.mode, warning, err, test.warns, test.refuses, test.remedy)
		})
	}
}

func expect(t *testing.T, mode fs.FileMode, warning *Finding, err error, warns, refuses, remedy string) {
	t.Helper()
	var refusal *Finding
	errors.As(err, &refusal)
	for _, check := range []struct {
		found *Finding
		want  string
	}{{warning, warns}, {refusal, refuses}} {
		switch {
		case (check.found != nil) != (check.want != ""):
			t.Errorf("%v: %v %v, want the warning %q, the refusal %q", mode, warning, err, warns, refuses)
		case check.found != nil && (!strings.Contains(check.found.Error(), check.want) ||
			!strings.Contains(check.found.Hint(), remedy)):
			t.Errorf("%v: %v; %s, want %q; %q", mode, check.found, check.found.Hint(), check.want, remedy)
		case check.found != nil && !strings.Contains(check.found.Error(), octal(mode)):
			t.Errorf("%v: %v does not name the mode", mode, check.found)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}
