// Package keyfile reads files that hold secrets or say who is trusted. It looks at
// whom their owner and mode let read and write them, and follows their changes.
package keyfile

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// maxSize is what a file of secrets or certificates may have at most.
const maxSize = 4 << 20

// Kind is what a file is for.
type Kind int

const (
	// Secret is a file that its owner alone should read.
	Secret Kind = iota
	// Trusted is a file that anybody may read and only its owner should write, such
	// as a certificate.
	Trusted
	// Folder is a folder that its owner alone should enter.
	Folder
	// Inner is a folder that others may enter, or reach only through a Folder, and that its owner
	// alone should write. On a file system that is mounted read-only nobody writes it: a ConfigMap of
	// Kubernetes has the mode 0777.
	Inner
)

// Finding is a file whose owner or mode let others do too much. As an error it
// refuses the file.
type Finding struct {
	Path string
	// Mode is the file's mode, in octal.
	Mode string
	// Problem says who may do what.
	Problem string
	// Remedy is a command that mends it.
	Remedy string
}

func (f *Finding) Error() string { return fmt.Sprintf("%s (mode %s): %s", f.Path, f.Mode, f.Problem) }

// Hint is what to do about it.
func (f *Finding) Hint() string { return f.Remedy }

// Check checks a file's owner and mode. It warns of a file that others may read, or that
// its group may write. It refuses a file that anybody may write, or that belongs to another
// user than root or the process's own. A missing file is neither.
func Check(kind Kind, path string) (warning *Finding, err error) { return self().check(kind, path) }

func (p process) check(kind Kind, path string) (warning *Finding, err error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if kind == Inner && isReadOnly(path) {
		return nil, nil
	}
	return p.judgeInfo(kind, path, info)
}

// Loose checks only the mode of a secret, not its owner: for a client, which may be
// run by root with somebody else's file. Nil: there is nothing to say.
func Loose(path string) *Finding {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	owner, group, ok := ownership(info)
	if !ok {
		return nil
	}
	warning, refusal := process{uid: owner}.judge(Secret, path, file{info.Mode(), owner, group})
	return cmp.Or(refusal, warning)
}

// Read returns the content of a file that Check does not refuse; it checks the same open
// file that it reads.
func Read(kind Kind, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := self().judgeInfo(kind, path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSize)
	}
	return data, err
}

// GiveOwner gives a new file the user and the group of another one.
func GiveOwner(f *os.File, of fs.FileInfo) error {
	owner, group, ok := ownership(of)
	if !ok {
		return nil
	}
	return f.Chown(owner, group)
}

// ReadLine is Read for a file that holds one secret, with or without a line's end.
func ReadLine(path string) (string, error) {
	data, err := Read(Secret, path)
	if err != nil {
		return "", err
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s: want one line", path)
	}
	return line, nil
}

// judgeInfo checks a regular file or a folder; a pipe or a device keeps nothing.
func (p process) judgeInfo(kind Kind, path string, info fs.FileInfo) (warning *Finding, err error) {
	owner, group, ok := ownership(info)
	if !ok || !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil
	}
	warning, refusal := p.judge(kind, path, file{info.Mode(), owner, group})
	if refusal != nil {
		return nil, refusal
	}
	return warning, nil
}

// Bits of a mode.
const (
	groupAll, groupWrite   fs.FileMode = 0o070, 0o020
	othersAll, othersWrite fs.FileMode = 0o007, 0o002
)

// process is the user and the groups that this program runs as.
type process struct {
	uid    int
	groups []int
}

func self() process {
	groups, _ := os.Getgroups() // without them the warnings are stricter
	return process{uid: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// file is what is looked at of a file.
type file struct {
	mode       fs.FileMode
	uid, group int
}

// judge warns of a file, or refuses it. Root can give a server that is not root what
// it needs through the server's group alone, as Kubernetes does with fsGroup; so the
// group of such a file is no matter for a warning. It is the rule that PostgreSQL has
// for its key. Nor is root's own group: with an access control list, as systemd's
// credentials have one, its bits say what the list gives at most.
func (p process) judge(kind Kind, path string, f file) (warning, refusal *Finding) {
	granted := f.uid == 0 && p.uid != 0 && slices.Contains(p.groups, f.group)
	found := func(problem, remedy string) *Finding {
		return &Finding{Path: path, Mode: octal(f.mode), Problem: problem, Remedy: remedy}
	}
	folder := kind == Folder || kind == Inner
	remedy := p.remedy(kind, quoted(path), f, granted)
	if f.uid != 0 && f.uid != p.uid {
		return nil, found(
			fmt.Sprintf("it belongs to user %d, who is neither root nor the user of this program (%d)", f.uid, p.uid),
			fmt.Sprintf("chown %d %s, or run the program as user %d", p.uid, quoted(path), f.uid))
	}
	if f.mode&othersWrite != 0 && !(folder && f.mode&fs.ModeSticky != 0) {
		return nil, found("anybody may write it", remedy)
	}
	mode := f.mode
	if granted || f.uid == 0 && f.group == 0 && p.uid != 0 {
		mode &^= groupAll
	}
	problems := exposures(kind, mode)
	if len(problems) == 0 {
		return nil, nil
	}
	return found(strings.Join(problems, ", and "), remedy), nil
}

// exposures lists what a mode allows that it should not.
func exposures(kind Kind, mode fs.FileMode) []string {
	read, verb := fs.FileMode(0o044), "read"
	switch kind {
	case Folder:
		read, verb = 0o055, "enter"
	case Trusted, Inner:
		read = 0
	}
	var problems []string
	if who := whose(mode & read); who != "" {
		problems = append(problems, who+" may "+verb+" it")
	}
	if who := whose(mode & (groupWrite | othersWrite)); who != "" {
		problems = append(problems, who+" may write it")
	}
	return problems
}

// whose names those whom bits of a mode are for; "" where none is set.
func whose(bits fs.FileMode) string {
	switch {
	case bits&othersAll != 0:
		return "anybody"
	case bits&groupAll != 0:
		return "its group"
	}
	return ""
}

// remedy is the command that leaves a file to root and the program.
func (p process) remedy(kind Kind, path string, f file, granted bool) string {
	switch {
	case kind == Trusted:
		return "chmod 0644 " + path
	case kind == Secret && granted:
		return "chmod 0640 " + path
	case kind == Secret && f.uid != p.uid:
		return fmt.Sprintf("chown %d %s && chmod 0600 %s", p.uid, path, path)
	case kind == Secret:
		return "chmod 0600 " + path
	case granted:
		return "chmod 0770 " + path
	case f.uid != p.uid:
		return fmt.Sprintf("chown %d %s && chmod 0700 %[2]s, or name a folder in it, which the program makes for itself",
			p.uid, path)
	}
	return "chmod 0700 " + path
}

// octal writes a mode as chmod takes it.
func octal(mode fs.FileMode) string {
	bits := mode.Perm()
	for bit, value := range map[fs.FileMode]fs.FileMode{
		fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000,
	} {
		if mode&bit != 0 {
			bits |= value
		}
	}
	return fmt.Sprintf("%04o", uint32(bits))
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/.-_", r) ||
			r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
