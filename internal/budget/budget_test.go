package budget

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func hold(t *testing.T, a *Account, n int64) {
	t.Helper()
	if err := a.Hold(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsHeldNeverExceedsTheSize(t *testing.T) {
	b := New(100, time.Minute)
	var held atomic.Int64
	var requests sync.WaitGroup
	for i := range 50 {
		requests.Go(func() {
			a := b.Open("")
			n := int64(i%60 + 1)
			hold(t, a, n)
			if now := held.Add(n); now > 100 {
				t.Errorf("%d bytes are held", now)
			}
			time.Sleep(time.Millisecond)
			held.Add(-n)
			a.Close()
		})
	}
	requests.Wait()
	if s := b.Stats(); s.Used != 0 || s.Refused != 0 {
		t.Errorf("in the end: %+v", s)
	}
}

func TestHoldRaisesAndIsBoundedByTheSize(t *testing.T) {
	b := New(100, time.Millisecond)
	a := b.Open("")
	for _, c := range []struct{ ask, used int64 }{{10, 10}, {5, 10}, {30, 30}, {1000, 100}} {
		hold(t, a, c.ask)
		if used := b.Stats().Used; used != c.used {
			t.Errorf("after %d: %d bytes are held, want %d", c.ask, used, c.used)
		}
	}
	a.Close()
	if used := b.Stats().Used; used != 0 {
		t.Errorf("%d bytes are held by nobody", used)
	}
}

// TestBusyAfterTheWait: who waits in vain is refused, and does not hold up those
// behind it.
func TestBusyAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		first := b.Open("")
		hold(t, first, 60)
		refused := make(chan error)
		go func() { refused <- b.Open("").Hold(t.Context(), 50) }()
		synctest.Wait()
		small := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			time.Sleep(500 * time.Millisecond)
			small <- b.Open("").Hold(ctx, 10)
		}()
		if err := <-refused; !errors.Is(err, ErrBusy) {
			t.Errorf("a request for which there is no room: %v", err)
		}
		if err := <-small; err != nil {
			t.Errorf("a small one behind it: %v", err)
		}
		if s := b.Stats(); s.Refused != 1 || s.Used != 70 {
			t.Errorf("%+v", s)
		}
	})
}

func TestACallerThatGoesAwayHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, time.Hour)
		first := b.Open("")
		hold(t, first, 100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Open("").Hold(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		first.Close()
		if s := b.Stats(); s.Used != 0 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestEndables: an account that is not at work is ended at once for another,
// at work only when no client has read for a while, and none that holds nothing.
func TestEndables(t *testing.T) {
	for name, c := range map[string]struct {
		hold  int64
		idle  bool
		ended bool
		after time.Duration
	}{
		"idle":                 {hold: 90, idle: true, ended: true, after: 0},
		"at work for too long": {hold: 90, ended: true, after: patience},
		"holding nothing":      {hold: 0, idle: true, ended: false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(100, 10*time.Second)
				var a *Account
				var err error
				ended := false
				if a, err = b.OpenEndable("", 20, func() { ended = true; go a.Close() }); err != nil {
					t.Fatal(err)
				}
				hold(t, a, c.hold)
				if c.idle {
					a.Idle()
				}
				began := time.Now()
				err = b.Open("").Hold(t.Context(), 90)
				if ended != c.ended || err != nil {
					t.Fatalf("ended: %v, %v", ended, err)
				}
				if took := time.Since(began); c.ended && (took < c.after || took > c.after+2*look) {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestFloorsAreBounded: as many accounts are open as there is room for, and what
// others hold takes none of that.
func TestFloorsAreBounded(t *testing.T) {
	b := New(100, time.Hour)
	hold(t, b.Open(""), 100)
	var open []*Account
	for range 5 {
		a, err := b.OpenEndable("", 20, func() { t.Error("one was ended for nothing") })
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, a)
	}
	if _, err := b.OpenEndable("", 20, func() {}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	open[0].Close()
	if _, err := b.OpenEndable("", 20, func() {}); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
}

func TestNoAccountIsNoBound(t *testing.T) {
	if err := Hold(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
}
