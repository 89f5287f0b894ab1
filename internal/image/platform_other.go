//go:build !linux

package image

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
)

func details(fs.FileInfo) (inode uint64, changed int64) { return 0, 0 }

func stateOf(f *os.File) (id identity, links uint64, err error) {
	info, err := f.Stat()
	if err != nil {
		return identity{}, 0, err
	}
	return identityOf(info), 1, nil
}

// Reopen fails: it needs Linux.
func Reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

// FreeSpace is not known here: a disk that is full shows when it is written to.
func FreeSpace(string) (uint64, error) { return math.MaxUint64, nil }

// IsDiskFull reports whether a write failed for want of room.
func IsDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
