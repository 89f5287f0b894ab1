package natsd

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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
	s.room.looked = time.Now().Add(time.Hour)
	s.room.free = 1 << 20
	var full *FullError
	if err := s.Room(1); !errors.As(err, &full) ||
		err.Error() != "the disk of "+dir+" is full: 1 MiB are free and 64 MiB are kept for deletes; delete objects or make room" {
		t.Errorf("%v", err)
	}
	s.room.free = reserve + 1
	if err := s.SpareRoom(1); s.Room(1) != nil || !errors.As(err, &full) {
		t.Errorf("with room for objects alone: %v", err)
	}
	s.room.looked = time.Time{}
	if err := s.Room(1); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

// TestFirstLookAtTheDisk: of the first writers, which come at once, none is told that the disk is full before somebody
// has looked at it.
func TestFirstLookAtTheDisk(t *testing.T) {
	dir := t.TempDir()
	for range 500 {
		s := &Server{storeDir: dir}
		begin := make(chan struct{})
		var writers errgroup.Group
		for range 16 {
			writers.Go(func() error { <-begin; return s.Room(1) })
		}
		close(begin)
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
