package kvstore

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
)

// TestACutIsOfOneMoment: eight writers write a number into one bucket, and once that is stored into another one. The
// cut of the two never has a number in the second that the first lacks. It is so for an embedded store, and where
// another server of a shared one writes, of which this one learns late.
func TestACutIsOfOneMoment(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprintf("exclusive=%v", exclusive), func(t *testing.T) {
			server := startEmbedded(t, t.TempDir())
			var written, read []*Store
			for _, bucket := range []string{"FIRST", "SECOND"} {
				store := New(batchKind(), Options{Exclusive: exclusive})
				store.bucket.streamName, store.bucket.subjectPrefix = "KV_"+bucket, "$KV."+bucket+"."
				run(t, store, connect(t, server))
				awaitReady(t, store)
				written, read = append(written, store), append(read, store)
				if !exclusive {
					var observers []Observer
					if bucket == "FIRST" {
						observers = []Observer{late{}}
					}
					other := New(batchKind(), Options{}, observers...)
					other.bucket.streamName, other.bucket.subjectPrefix = "KV_"+bucket, "$KV."+bucket+"."
					run(t, other, connect(t, server))
					awaitReady(t, other)
					read[len(read)-1] = other
				}
			}
			var writing sync.WaitGroup
			var ended atomic.Bool
			for i := range 8 {
				writing.Go(func() {
					for n := 1; n < 60; n++ {
						for _, store := range written {
							putAll(t, store, puts(store, strconv.Itoa(n), i))
						}
					}
				})
			}
			go func() { writing.Wait(); ended.Store(true) }()
			settled, cuts := 0, 0
			for ; !ended.Load(); cuts++ {
				views, ok, err := Cut(t.Context(), read)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					continue
				}
				settled++
				for i := range 8 {
					if first, second := noteIn(t, views[0], i), noteIn(t, views[1], i); first < second {
						t.Fatalf("host %d has %d in the first bucket, and %d in the second", i, first, second)
					}
				}
			}
			views, ok, err := Cut(t.Context(), read)
			if err != nil || !ok || views[0].Len() != 8 || noteIn(t, views[0], 3) != noteIn(t, views[1], 3) {
				t.Errorf("without writers: %v %t", err, ok)
			}
			t.Logf("%d of %d cuts were of one moment", settled, cuts)
		})
	}
}

// late is an observer that lets a server learn late of what others write into a bucket.
type late struct{}

func (late) Load([]Item)           {}
func (late) Put(Item)              { time.Sleep(2 * time.Millisecond) }
func (late) Delete(string, uint64) {}

// noteIn returns the number that a writer has written last; 0: none.
func noteIn(t *testing.T, v View, i int) int {
	t.Helper()
	item, ok := v.Get(batchKey(i))
	if !ok {
		return 0
	}
	h := new(v1.BareMetalHost)
	if err := v.Decode(item, runtime.Object(h)); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(h.Annotations["note"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
