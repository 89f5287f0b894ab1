package image

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// details returns a file's inode, and when it was changed last.
func details(info fs.FileInfo) (inode uint64, changed int64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, stat.Ctim.Nano()
	}
	return 0, 0
}

// stateOf returns the identity of an open file, and how many names it has. It is asked
// with every read, and does not allocate.
func stateOf(f *os.File) (id identity, links uint64, err error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		return identity{}, 0, err
	}
	return identity{stat.Ino, stat.Size, stat.Mtim.Nano(), stat.Ctim.Nano()}, uint64(stat.Nlink), nil
}

// Reopen opens an open file once more, wherever its name is now: the new handle has a position of its own.
func Reopen(f *os.File) (*os.File, error) {
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

// FreeSpace returns the bytes that may still be written below dir.
func FreeSpace(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

// IsDiskFull reports whether a write failed for want of room.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
