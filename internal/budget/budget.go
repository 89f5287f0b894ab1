// Package budget bounds the memory that requests under way take together. A
// request tells what it is about to take, waits for its turn where that is too
// much with what the others have, and is refused where its turn does not come.
//
// It bounds the API alone: what machines ask for to boot never asks for a turn.
package budget

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy says that the others did not leave enough in time.
var ErrBusy = errors.New("the requests under way take as much memory as they may")

const (
	// look is how often those who wait look for an account to end.
	look = 250 * time.Millisecond
	// patience is how long an account that can be ended may be at work while others
	// wait for what it holds.
	patience = 2 * time.Second
)

// Budget is an amount of bytes that accounts share.
type Budget struct {
	size int64
	wait time.Duration

	mu       sync.Mutex
	used     int64
	floors   int64
	queue    list.List // of *waiter: first come, first served
	accounts map[*Account]struct{}
	refused  uint64
	ended    uint64
}

// waiter is an account that wants need bytes more.
type waiter struct {
	account *Account
	need    int64
	granted chan struct{}
}

// New makes a budget of size bytes, in which an account waits for its turn at
// most for wait.
func New(size int64, wait time.Duration) *Budget {
	return &Budget{size: size, wait: wait, accounts: map[*Account]struct{}{}}
}

// Stats are a budget's numbers.
type Stats struct {
	// Size is what may be held, Used what is, and Floors what open accounts take
	// beside it, in bytes.
	Size, Used, Floors int64
	// Refused counts the turns that did not come, and Ended the accounts that
	// were ended for others.
	Refused, Ended uint64
}

// Stats returns the numbers of the moment.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Size: b.size, Used: b.used, Floors: b.floors, Refused: b.refused, Ended: b.ended}
}

// Account is what one request holds of a budget.
type Account struct {
	budget *Budget
	end    func() // nil: it is never ended for others

	// The budget's mutex guards what follows.
	held   int64
	floor  int64
	busy   time.Time // since when it is at work; zero: it is not
	ended  bool
	closed bool
}

// Open makes an account that holds nothing yet. Close it when the request is over.
func (b *Budget) Open() *Account { return &Account{budget: b} }

// OpenEndable makes the account of a request that may be ended for others: end is
// called then, from any goroutine, once. It takes floor bytes for as long as it is
// open, and is never ended for these: the floors have as much room as there is for
// what is held. The error is ErrBusy.
func (b *Budget) OpenEndable(floor int64, end func()) (*Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.floors+floor > b.size {
		b.refused++
		return nil, ErrBusy
	}
	a := &Account{budget: b, end: end, floor: floor}
	b.floors += floor
	b.accounts[a] = struct{}{}
	return a, nil
}

// Hold raises what the account holds to n bytes, or to the whole budget where that
// is less. It does not lower it: memory that was taken is seldom given back before
// a request is over. The error is ErrBusy, or that of ctx.
func (a *Account) Hold(ctx context.Context, n int64) error {
	b := a.budget
	n = min(n, b.size)
	b.mu.Lock()
	w := &waiter{account: a, need: n - a.held, granted: make(chan struct{})}
	if w.need <= 0 || b.queue.Len() == 0 && b.used+w.need <= b.size {
		b.grant(w)
		b.mu.Unlock()
		return nil
	}
	place := b.queue.PushBack(w)
	b.mu.Unlock()
	return b.await(ctx, w, place)
}

// await waits for a turn, and ends others for it.
func (b *Budget) await(ctx context.Context, w *waiter, place *list.Element) error {
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	var err error
	for err == nil {
		b.endOthers(w)
		select {
		case <-w.granted:
			return nil
		case <-ticker.C:
		case <-timer.C:
			err = ErrBusy
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted: // meanwhile
		return nil
	default:
	}
	b.queue.Remove(place)
	b.admit()
	if errors.Is(err, ErrBusy) {
		b.refused++
	}
	return err
}

// grant gives a waiter what it wants. Call it with the mutex held.
func (b *Budget) grant(w *waiter) {
	if !w.account.closed && w.need > 0 {
		w.account.held += w.need
		b.used += w.need
	}
	if w.account.busy.IsZero() {
		w.account.busy = time.Now()
	}
	close(w.granted)
}

// admit grants what there is room for, the first in the queue first. Call it with
// the mutex held.
func (b *Budget) admit() {
	for place := b.queue.Front(); place != nil; place = b.queue.Front() {
		w := place.Value.(*waiter)
		if b.used+w.need > b.size && !w.account.closed {
			return
		}
		b.queue.Remove(place)
		b.grant(w)
	}
}

// endOthers ends accounts that hold something, for the first in the queue: first
// those that are not at work, then those that have been for too long, since nobody
// reads what they write.
func (b *Budget) endOthers(w *waiter) {
	b.mu.Lock()
	front := b.queue.Front()
	if front == nil || front.Value != any(w) {
		b.mu.Unlock()
		return
	}
	short := b.used + w.need - b.size
	now := time.Now()
	var candidates []*Account
	for a := range b.accounts {
		switch {
		case a == w.account:
		case a.ended:
			short -= a.held // it is about to be given back
		case a.held > 0 && (a.busy.IsZero() || now.Sub(a.busy) > patience):
			candidates = append(candidates, a)
		}
	}
	slices.SortFunc(candidates, func(x, y *Account) int {
		return cmp.Or(x.busy.Compare(y.busy), cmp.Compare(y.held, x.held))
	})
	var end []func()
	for _, a := range candidates {
		if short <= 0 {
			break
		}
		short -= a.held
		a.ended = true
		b.ended++
		end = append(end, a.end)
	}
	b.mu.Unlock()
	for _, f := range end {
		f()
	}
}

// Busy says that the account's request is at work. Hold says so too.
func (a *Account) Busy() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.busy.IsZero() {
		a.busy = time.Now()
	}
}

// Idle says that it has nothing to do at the moment.
func (a *Account) Idle() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.busy = time.Time{}
}

// Close gives back what the account holds.
func (a *Account) Close() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.accounts, a)
	if a.closed {
		return
	}
	b.used -= a.held
	b.floors -= a.floor
	a.held, a.closed = 0, true
	b.admit()
}

type key struct{}

// With returns a context in which Hold takes from an account.
func With(ctx context.Context, a *Account) context.Context { return context.WithValue(ctx, key{}, a) }

// Hold is Account.Hold of the context's account. A context without one is not
// bounded: the server works for itself.
func Hold(ctx context.Context, n int64) error {
	a, ok := ctx.Value(key{}).(*Account)
	if !ok {
		return nil
	}
	return a.Hold(ctx, n)
}
