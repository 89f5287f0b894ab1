//go:build unix

package keyfile

import (
	"io/fs"
	"syscall"
)

// ownership returns the user and the group of a file.
func ownership(info fs.FileInfo) (uid, group int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}

// hasOtherNames reports whether a file has hard links.
func hasOtherNames(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}
