package natsd

import (
	"errors"
	"testing"
	"time"
)

// TestRoom: a look at the disk holds for a moment, and a new one corrects it.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	if err := s.Room(1); err != nil {
		t.Skipf("the disk of this machine is full: %v", err)
	}
	s.room.looked.Store(time.Now().Add(time.Hour).UnixNano())
	s.room.free.Store(1 << 20)
	var full *FullError
	if err := s.Room(1); !errors.As(err, &full) ||
		err.Error() != "the disk of "+dir+" is full: 1 MiB are free and 64 MiB are kept for deletes; delete objects or make room" {
		t.Errorf("%v", err)
	}
	s.room.free.Store(reserve + 1)
	if err := s.SpareRoom(1); s.Room(1) != nil || !errors.As(err, &full) {
		t.Errorf("with room for objects alone: %v", err)
	}
	s.room.looked.Store(0)
	if err := s.Room(1); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}
