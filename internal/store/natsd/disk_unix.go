//go:build linux || darwin || freebsd

package natsd

import "golang.org/x/sys/unix"

// diskSpace returns the bytes that this process may still write to a directory's
// file system.
func diskSpace(dir string) (free uint64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return uint64(max(0, int64(st.Bavail))) * uint64(st.Bsize), true
}
