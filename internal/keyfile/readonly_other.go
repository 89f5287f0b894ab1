//go:build !linux

package keyfile

// isReadOnly reports whether a path is on a file system that is mounted read-only.
func isReadOnly(string) bool { return false }
