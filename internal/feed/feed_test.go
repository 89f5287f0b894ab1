package feed

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestChangesReachAllSubscribers: each subscriber gets all changes in their order, also those from before it follows
// them, and none after its end.
func TestChangesReachAllSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(0)
		var got [2][]int
		var stops [2]func()
		for i := range got {
			s := f.Subscribe()
			f.Publish(1)
			ctx, cancel := context.WithCancel(t.Context())
			wait := s.Follow(ctx, func(n int) { got[i] = append(got[i], n) })
			stops[i] = func() { cancel(); wait() }
		}
		f.Publish(2)
		synctest.Wait()
		stops[0]()
		f.Publish(3)
		synctest.Wait()
		stops[1]()
		if !slices.Equal(got[0], []int{1, 1, 2}) || !slices.Equal(got[1], []int{1, 2, 3}) {
			t.Errorf("%v", got)
		}
		if len(f.subs) > 0 {
			t.Errorf("%d subscriptions are left", len(f.subs))
		}
	})
}

// TestSubscribersDelayNoWriter: one that is stuck delays neither the writer nor another, its backlog is bounded, and
// it is told that it has missed changes.
func TestSubscribersDelayNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const missed = -1
		f := New(missed)
		release, stuck, ctx := make(chan struct{}), []int{}, t.Context()
		ctx, cancel := context.WithCancel(ctx)
		slow := f.Subscribe()
		waitSlow := slow.Follow(ctx, func(n int) { <-release; stuck = append(stuck, n) })
		last := 0
		waitFast := f.Subscribe().Follow(ctx, func(n int) { last = n })
		f.Publish(0)
		synctest.Wait()
		for n := range 3 * maxBacklog {
			f.Publish(n + 1)
			if n%100 == 0 {
				synctest.Wait()
			}
			if len(slow.backlog) > maxBacklog {
				t.Fatalf("a backlog of %d changes", len(slow.backlog))
			}
		}
		synctest.Wait()
		if last != 3*maxBacklog {
			t.Errorf("the other subscriber has %d", last)
		}
		close(release)
		synctest.Wait()
		if len(stuck) < 2 || stuck[1] != missed || stuck[len(stuck)-1] != 3*maxBacklog {
			t.Errorf("%d changes, from %v", len(stuck), stuck[:min(len(stuck), 3)])
		}
		cancel()
		waitSlow()
		waitFast()
	})
}
