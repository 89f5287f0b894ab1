package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is how much garbage there may be, in bytes, before it is collected; busyRoom
	// while templates are rendered: compiling one for a host leaves 10 MB, and a collection
	// marks the whole store.
	heapRoom, busyRoom = 96 << 20, 384 << 20
	// heapBound and busyBound bound the heap with its garbage, in bytes, where the live
	// objects leave room for that.
	heapBound, busyBound = 512 << 20, 640 << 20
	// A small heap grows to a few times of its live objects, which saves a twentieth of the
	// CPU of a request; a huge one is not collected all the time.
	maxPercent, minPercent = 400, 20
	heapInterval           = 250 * time.Millisecond
)

// tendHeap keeps the process small where the store is large: by default Go lets the heap
// grow to twice its live objects, which for 100,000 hosts are hundreds of megabytes. It
// also returns the memory for reading the store, once loaded. busy reports whether
// templates are rendered. GOGC and GOMEMLIMIT take precedence.
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

// collectorPercent returns the garbage that a heap may have, in percent of its live objects.
func collectorPercent(live uint64, busy bool) int {
	live = max(live, 1<<20)
	room := min(heapRoom, live*maxPercent/100, heapBound-min(heapBound, live))
	if busy {
		room = min(busyRoom, busyBound-min(busyBound, live))
	}
	return int(max(minPercent, room*100/live))
}
