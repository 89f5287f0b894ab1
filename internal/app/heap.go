package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is how much garbage may pile up, in bytes, before it is collected;
	// busyRoom while templates are rendered: compiling one for a host leaves 10 MB
	// behind, and a collection goes over all that the server knows.
	heapRoom, busyRoom = 96 << 20, 384 << 20
	// heapBound and busyBound are what the heap is kept to with its garbage, in
	// bytes, where what is alive leaves room for that.
	heapBound, busyBound = 512 << 20, 640 << 20
	// A small heap grows to a few times of what is alive, which spares a twentieth
	// of the work of a request; a huge one is not collected all the time.
	maxPercent, minPercent = 400, 20
	heapInterval           = 250 * time.Millisecond
)

// tendHeap keeps the process small where the store is large: by default Go lets
// the heap grow to twice of what is alive, which for a hundred thousand hosts are
// hundreds of megabytes for nothing. It also gives back what reading the store
// took, once loaded. busy reports whether templates are rendered. GOGC and GOMEMLIMIT
// take precedence.
func tendHeap(ctx context.Context, loaded, busy func() bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(heapInterval)
	defer ticker.Stop()
	set, returned := maxPercent, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(live)
		if percent := collectorPercent(live[0].Value.Uint64(), busy()); percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		if !returned && loaded() {
			returned = true
			debug.FreeOSMemory()
		}
	}
}

// collectorPercent is how far a heap may grow beyond what is alive.
func collectorPercent(live uint64, busy bool) int {
	live = max(live, 1<<20)
	room := min(heapRoom, live*maxPercent/100, heapBound-min(heapBound, live))
	if busy {
		room = min(busyRoom, busyBound-min(busyBound, live))
	}
	return int(max(minPercent, room*100/live))
}
