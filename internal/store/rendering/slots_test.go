package rendering

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// order runs renderings that take a second each, all of them asked for in turn, and returns when each ended, in
// seconds.
func order(t *testing.T, s *slots, of ...string) []string {
	t.Helper()
	var mu sync.Mutex
	var ended []string
	began := time.Now()
	var running sync.WaitGroup
	for _, name := range of {
		running.Go(func() {
			c := forHost
			if strings.HasPrefix(name, "viewer of ") {
				c = forViewer
			}
			namespace := strings.TrimPrefix(name, "viewer of ")
			if err := s.acquire(t.Context(), c, namespace); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Second)
			mu.Lock()
			ended = append(ended, time.Since(began).String()+" "+name)
			mu.Unlock()
			s.release(c, namespace)
		})
		synctest.Wait()
	}
	running.Wait()
	slices.Sort(ended)
	if s.running != 0 || len(s.shares) != 0 {
		t.Errorf("%d run, and %d namespaces are kept", s.running, len(s.shares))
	}
	return ended
}

// TestNamespacesShareTheSlots: a namespace with many slow renderings does not delay the first one of another, and
// the slots that it leaves go around; viewers wait for machines.
func TestNamespacesShareTheSlots(t *testing.T) {
	for name, c := range map[string]struct {
		each       int
		asked, end []string
	}{
		"a namespace has half": {2, []string{"a", "a", "a", "a", "b"}, []string{"1s a", "1s a", "1s b", "2s a", "2s a"}},
		"the next one has the fewest": {1, []string{"a", "b", "a", "a", "b", "c"},
			[]string{"1s a", "1s b", "2s a", "2s c", "3s a", "3s b"}},
		"viewers are last": {1, []string{"a", "b", "viewer of a", "a", "b", "c"},
			[]string{"1s a", "1s b", "2s a", "2s c", "3s b", "3s viewer of a"}},
		"one viewer at a time": {2, []string{"viewer of a", "viewer of b"}, []string{"1s viewer of a", "2s viewer of b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := order(t, newSlots(c.each), c.asked...); !slices.Equal(got, c.end) {
					t.Errorf("%q, want %q", got, c.end)
				}
			})
		})
	}
}

// TestSlotsOfWhoHasGone: who waits no longer takes no slot, and is forgotten.
func TestSlotsOfWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if err := s.acquire(t.Context(), forHost, "a"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []class{forHost, forStranger, forViewer} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if s.acquire(ctx, c, "a") == nil {
				t.Errorf("class %d has a slot beyond the bound", c)
			}
			cancel()
		}
		s.release(forHost, "a")
		for _, c := range []class{forStranger, forViewer} {
			if err := s.acquire(t.Context(), c, "a"); err != nil {
				t.Error(err)
			}
			s.release(c, "a")
		}
		if len(s.shares) != 0 || s.running != 0 {
			t.Errorf("%d namespaces are kept, %d run", len(s.shares), s.running)
		}
	})
}
