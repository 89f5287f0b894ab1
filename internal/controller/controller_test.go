package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// run runs a controller until the test ends, in the bubble of the test.
func run[K comparable](t *testing.T, c *Controller[K]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
}

func TestKeyIsReconciledOnceForManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := New(Options[string]{Reconcile: func(context.Context, string) (time.Duration, error) {
			n++
			return 0, nil
		}})
		run(t, c)
		for range 100 {
			c.EnqueueAfter("a", time.Second)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n != 1 {
			t.Errorf("%d reconciles; want 1", n)
		}
	})
}

func TestKeyIsNeverReconciledByTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, most, total atomic.Int32
		c := New(Options[string]{Workers: 4, Reconcile: func(context.Context, string) (time.Duration, error) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(time.Second)
			under.Add(-1)
			total.Add(1)
			return 0, nil
		}})
		run(t, c)
		for range 5 {
			c.Enqueue("a")
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if most.Load() != 1 || total.Load() < 2 {
			t.Errorf("%d at a time, %d in all; want 1 at a time, and one more after the last change", most.Load(), total.Load())
		}
	})
}

func TestFailureIsTriedAgainWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		metrics := NewMetrics(prometheus.NewRegistry())
		c := New(Options[string]{Name: "x", Metrics: metrics, Reconcile: func(context.Context, string) (time.Duration,
			error) {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return 0, errors.New("the store is away")
			case 2:
				panic("a fault of ours")
			case 3:
				return time.Hour, nil
			}
			return 0, nil
		}})
		run(t, c)
		c.Enqueue("a")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want := []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, time.Hour + 600*time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("reconciled at %v; want %v", at, want)
		}
		for result, want := range map[string]float64{"error": 1, "panic": 1, "requeue_after": 1, "success": 1} {
			if n := testutil.ToFloat64(metrics.reconciles.WithLabelValues("x", result)); n != want {
				t.Errorf("result %s: %v; want %v", result, n, want)
			}
		}
	})
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		panicked := false
		c := New(Options[string]{
			Name: "x", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Reconcile: func(context.Context, string) (time.Duration, error) {
				if !panicked {
					panicked = true
					panic("a fault of ours")
				}
				return 0, nil
			},
		})
		run(t, c)
		c.Enqueue("the-key")
		synctest.Wait()
		for _, part := range []string{"controller=x", "key=the-key", "a fault of ours", "controller_test.go"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log lacks %q: %s", part, log.String())
			}
		}
	})
}

func TestLowPriorityWaitsForAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		c := New(Options[string]{
			LowPriority: func(key string) bool { return strings.HasPrefix(key, "low") },
			Reconcile: func(_ context.Context, key string) (time.Duration, error) {
				order = append(order, key)
				time.Sleep(time.Second)
				return 0, nil
			},
		})
		run(t, c)
		for _, key := range []string{"a", "low1", "b", "low2", "c"} {
			c.Enqueue(key)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"a", "b", "c", "low1", "low2"}; !slices.Equal(order, want) {
			t.Errorf("reconciled %v; want %v", order, want)
		}
	})
}

// TestGroupsTakeTurns: a key waits for at most one of each other group, whatever their priorities.
func TestGroupsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		c := New(Options[string]{
			Group: func(key string) string { return key[:1] },
			Reconcile: func(_ context.Context, key string) (time.Duration, error) {
				order = append(order, key)
				time.Sleep(time.Second)
				return 0, nil
			},
		})
		run(t, c)
		for _, key := range []string{"a1", "a2", "a3", "a4"} {
			c.Enqueue(key)
			synctest.Wait()
		}
		for _, key := range []string{"b1", "b2", "c1"} {
			c.EnqueueLow(key)
		}
		c.Enqueue("b2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"a1", "a2", "b2", "c1", "a3", "b1", "a4"}; !slices.Equal(order, want) || c.Pending() != 0 {
			t.Errorf("reconciled %v, %d pending; want %v, 0", order, c.Pending(), want)
		}
	})
}

// TestRunAgainListsAgain: a list that fails or panics is tried again. A server that holds
// its lease once more begins with all keys, and one that does not hold it queues none.
func TestRunAgainListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		lists := 0
		c := New(Options[string]{
			Reconcile: func(_ context.Context, key string) (time.Duration, error) {
				seen = append(seen, key)
				return 0, nil
			},
			List: func(context.Context) ([]string, error) {
				switch lists++; lists {
				case 1:
					return nil, errors.New("the store is away")
				case 2:
					panic("a fault of ours")
				}
				return []string{"a", "b"}, nil
			},
		})
		for range 2 {
			c.Enqueue("dropped")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { c.Run(ctx) })
			time.Sleep(time.Second)
			cancel()
			running.Wait()
		}
		if want := []string{"a", "b", "a", "b"}; !slices.Equal(seen, want) || c.Pending() != 0 {
			t.Errorf("reconciled %v, %d pending; want %v, 0", seen, c.Pending(), want)
		}
	})
}

func TestRunWaitsForTheLastReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		c := New(Options[int]{Timeout: time.Minute, Reconcile: func(ctx context.Context, _ int) (time.Duration, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return 0, ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		time.AfterFunc(time.Millisecond, func() { c.Enqueue(1) })
		c.Run(ctx)
		if !ended {
			t.Error("Run returned before the reconciler")
		}
	})
}

// A key of the backlog that is queued again, as by a change of its object, goes before the
// others, and no key is reconciled by two workers.
func TestLowPriorityEndsWithTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		c := New(Options[string]{Reconcile: func(_ context.Context, key string) (time.Duration, error) {
			order = append(order, key)
			time.Sleep(time.Second)
			return 0, nil
		}})
		run(t, c)
		c.Enqueue("running")
		synctest.Wait()
		for _, key := range []string{"a", "b", "c"} {
			c.EnqueueLow(key)
		}
		c.Enqueue("d")
		c.Enqueue("c")
		c.EnqueueLow("running")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := []string{"running", "d", "c", "a", "b", "running"}; !slices.Equal(order, want) {
			t.Errorf("reconciled in the order %q; want %q", order, want)
		}
	})
}
