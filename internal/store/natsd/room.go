package natsd

import (
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"
)

const (
	// maxStore is no limit: JetStream would take three quarters of what was free
	// when it started, refuse even deletes at that point, and not notice that
	// room was made.
	maxStore = math.MaxInt64 / 4
	// reserve is kept free. Deletes, which make room, have to be written too, and
	// rewrite a block of several MiB; and a write that does meet a full disk is
	// only forgotten by a restart.
	reserve = 64 << 20
	// roomInterval is how long a look at the disk is good for.
	roomInterval = 100 * time.Millisecond
)

// FullError says that the disk of the store has no room.
type FullError struct {
	Dir string
	// Free is what is left, in bytes.
	Free uint64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: %d MiB are free and %d MiB are kept for deletes; delete objects or "+
		"make room",
		e.Dir, e.Free>>20, reserve>>20)
}

// room is the last look at the disk.
type room struct {
	looked atomic.Int64 // Unix nanoseconds
	full   atomic.Pointer[FullError]
}

// Room says why nothing more should be written, however small: a *FullError. It is
// cheap, and notices within a moment that room was made.
func (s *Server) Room(int) error {
	now := time.Now().UnixNano()
	if last := s.room.looked.Load(); now-last > int64(roomInterval) && s.room.looked.CompareAndSwap(last, now) {
		s.room.full.Store(look(s.storeDir))
	}
	if full := s.room.full.Load(); full != nil {
		return full
	}
	return nil
}

// look returns the error of a disk without room, nil where there is some or the
// system does not tell.
func look(dir string) *FullError {
	free, ok := diskSpace(dir)
	if !ok || free > reserve {
		return nil
	}
	return &FullError{Dir: filepath.Dir(dir), Free: free}
}
