//go:build !linux && !darwin && !freebsd

package natsd

func diskSpace(string) (free uint64, ok bool) { return 0, false }
