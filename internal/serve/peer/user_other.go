//go:build !linux

package peer

import "net"

// UserOf always fails: only Linux tells which user a connection is of.
func UserOf(net.Conn) (uint32, error) { return 0, ErrNoUser }
