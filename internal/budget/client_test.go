package budget

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharesOfClients: what a client can hold with many requests, depending on what others hold.
func TestSharesOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(120, time.Second)
		take := func(client string) (held int64) {
			for b.Open(client).Hold(t.Context(), 1) == nil {
				held++
			}
			return held
		}
		for _, c := range []struct {
			client string
			want   int64
		}{{"first", 60}, {"second", 30}, {"third", 15}, {"fourth", 8}, {"fifth", 4}} {
			if held := take(c.client); held != c.want {
				t.Errorf("the %s client holds %d, want %d", c.client, held, c.want)
			}
		}
		if held := take(""); held != 3 {
			t.Errorf("nobody holds %d, want all the rest", held)
		}
	})
}

// TestALargeRequestIsNotBoundedByTheShare: alone, a client may hold everything with one request, which may raise
// what it holds.
func TestALargeRequestIsNotBoundedByTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		a := b.Open("one")
		hold(t, a, 20)
		hold(t, a, 90)
		if err := b.Open("one").Hold(t.Context(), 5); !errors.Is(err, ErrBusy) {
			t.Errorf("another request of the client beside it: %v", err)
		}
		if err := b.Open("other").Hold(t.Context(), 5); err != nil {
			t.Errorf("a request of another client: %v", err)
		}
	})
}

// TestTurnsGoAround: a client whose requests wait does not hold up one that comes later.
func TestTurnsGoAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(2, time.Hour)
		var mu sync.Mutex
		var order []string
		var requests sync.WaitGroup
		request := func(client string, need int64) {
			requests.Go(func() {
				a := b.Open(client)
				hold(t, a, need)
				mu.Lock()
				order = append(order, client)
				mu.Unlock()
				time.Sleep(time.Second)
				a.Close()
			})
			synctest.Wait()
		}
		for range 4 {
			request("greedy", 2)
		}
		request("second", 2)
		request("third", 2)
		request("second", 2)
		requests.Wait()
		want := []string{"greedy", "second", "third", "greedy", "second", "greedy", "greedy"}
		if !slices.Equal(order, want) {
			t.Errorf("order: %v", order)
		}
		if len(b.clients) > 0 {
			t.Errorf("%d clients are kept", len(b.clients))
		}
	})
}

// TestTheQueueIsBounded: neither a client nor all together let any number of requests wait.
func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1, time.Minute)
		hold(t, b.Open(""), 1)
		var refused sync.Map
		var requests sync.WaitGroup
		wait := func(client string, n int) {
			for range n {
				requests.Go(func() {
					began := time.Now()
					if err := b.Open(client).Hold(t.Context(), 1); errors.Is(err, ErrBusy) && time.Since(began) == 0 {
						count, _ := refused.LoadOrStore(client, new(int))
						*count.(*int)++
					}
				})
				synctest.Wait()
			}
		}
		wait("one", maxWaiting+3)
		for i := range maxQueue/maxWaiting - 1 {
			wait(string(rune('a'+i)), maxWaiting)
		}
		wait("other", 2)
		requests.Wait()
		for client, want := range map[string]int{"one": 3, "other": 2} {
			if count, _ := refused.Load(client); count == nil || *count.(*int) != want {
				t.Errorf("%s: refused at once: %v, want %d", client, count, want)
			}
		}
		if s := b.Stats(); s.Refused != maxQueue+5 || b.queue.Len() != 0 {
			t.Errorf("%+v, %d wait", s, b.queue.Len())
		}
	})
}

// TestFloorsOfClients: one client cannot have all of the accounts that stay open.
func TestFloorsOfClients(t *testing.T) {
	b := New(100, time.Second)
	open := func(client string) (n int) {
		for {
			if _, err := b.OpenEndable(client, 10, func() {}); err != nil {
				return n
			}
			n++
		}
	}
	for _, c := range []struct {
		client string
		want   int
	}{{"one", 5}, {"two", 3}, {"three", 1}, {"", 1}} {
		if n := open(c.client); n != c.want {
			t.Errorf("%q has %d, want %d", c.client, n, c.want)
		}
	}
}

// TestWatchesOfOneClientHaveTheRoom: what accounts hold that may be ended for others is bounded by the size alone.
func TestWatchesOfOneClientHaveTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		ended := 0
		for range 2 {
			var a *Account
			a, err := b.OpenEndable("one", 1, func() { ended++; go a.Close() })
			if err != nil {
				t.Fatal(err)
			}
			hold(t, a, 45)
			a.Idle()
		}
		third, err := b.OpenEndable("one", 1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		hold(t, third, 45)
		if ended != 1 {
			t.Errorf("%d idle accounts were ended", ended)
		}
	})
}
