//go:build !linux

package images

import (
	"errors"
	"io/fs"
	"math"
	"syscall"
)

func inode(fs.FileInfo) uint64 { return 0 }

// freeSpace is not known here: a disk that is full shows when it is written to.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

func isDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
