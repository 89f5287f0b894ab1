//go:build !linux

package peer

import "net"

// UserOf always fails: only Linux reports the user of a connection.
func UserOf(net.Conn) (uint32, error) { return 0, ErrNoUser }
