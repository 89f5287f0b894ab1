package keyfile

import "syscall"

// mountedReadOnly is ST_RDONLY of statfs(2).
const mountedReadOnly = 1

// isReadOnly reports whether a path is on a file system that is mounted read-only.
func isReadOnly(path string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(path, &fs) == nil && fs.Flags&mountedReadOnly != 0
}
