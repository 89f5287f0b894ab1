//go:build !linux

package peer

import "log/slog"

// openNeighbors returns none: the neighbour table is read on Linux alone.
func openNeighbors(*slog.Logger) Neighbors { return nil }
