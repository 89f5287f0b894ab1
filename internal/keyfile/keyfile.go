// Package keyfile reads files that hold secrets or say who is trusted. It looks at
// whom their owner and mode let read and write them, and follows their changes.
package keyfile

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	// Inner is a folder that others reach only through a Folder.
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

// Check looks at a file's owner and mode. Where others may read it, or its group may
// write it, that is a warning; where anybody may write it, or it belongs to another
// user than root or the process's own, it is refused. One that is missing is neither.
func Check(kind Kind, path string) (warning *Finding, err error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return judge(kind, path, info)
}

// Loose looks at the mode of a secret alone, whoever owns it: for a client, which may be
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

// Read returns the content of a file that Check does not refuse; it looks at the very
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
	if _, err := judge(kind, path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSize)
	}
	return data, err
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

// judge looks at a regular file or a folder; a pipe or a device keeps nothing.
func judge(kind Kind, path string, info fs.FileInfo) (warning *Finding, err error) {
	owner, group, ok := ownership(info)
	if !ok || !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil
	}
	warning, refusal := self().judge(kind, path, file{info.Mode(), owner, group})
	if refusal != nil {
		return nil, refusal
	}
	return warning, nil
}
