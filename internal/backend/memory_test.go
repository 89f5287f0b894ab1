package backend

import (
	"errors"
	"math"
	"runtime"
	"testing"
)

// TestValuesBeyondTheMemoryAreRefused: what is alive, and what was let through since
// the heap was measured, leaves a part of the memory to machines.
func TestValuesBeyondTheMemoryAreRefused(t *testing.T) {
	runtime.GC()
	m := newMemoryRoom(1 << 30)
	let := 0
	for m.room(1<<20) == nil {
		if let++; let > 1000 {
			t.Fatal("nothing is refused")
		}
	}
	if let < 100 || let > 1<<30/100*storeShare/(valueFactor<<20) {
		t.Errorf("%d values of 1 MiB were let through", let)
	}
	if err := newMemoryRoom(math.MaxInt64).room(1 << 30); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	full := errors.New("the disk is full")
	if err := newMemoryRoom(1 << 30).within(func(int) error { return full })(1); !errors.Is(err, full) {
		t.Errorf("the other check says %v", err)
	}
}
