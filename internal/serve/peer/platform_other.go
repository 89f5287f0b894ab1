//go:build !linux

package peer

import (
	"log/slog"
	"net"
)

// openNeighbors returns none: the neighbour table is read on Linux alone.
func openNeighbors(*slog.Logger) Neighbors { return nil }

// UserOf always fails: only Linux reports the user of a connection.
func UserOf(net.Conn) (uint32, error) { return 0, ErrNoUser }
