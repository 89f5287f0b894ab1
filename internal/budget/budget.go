// Package budget bounds what the requests under way take together: memory, or the turns in which they are
// executed. A request reserves its part, waits where the others hold too much, and is refused where that
// takes too long. No client of many can take so much that another one gets nothing.
//
// It bounds the API alone: requests of booting machines never wait.
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

// ErrBusy is the error where the others did not leave enough in time.
var ErrBusy = errors.New("the requests under way take as much memory as they may")

const (
	// look is how often a waiter tries to end other accounts.
	look = 250 * time.Millisecond
	// patience is how long an account that can be ended may be at work while others
	// wait for its memory.
	patience = 2 * time.Second
	// maxQueue bounds the requests that wait, and maxWaiting those of one client.
	maxQueue, maxWaiting = 2000, 400
)

// Budget is an amount, of bytes say, that the accounts of clients share.
type Budget struct {
	size int64
	wait time.Duration

	mu       sync.Mutex
	used     int64
	floors   int64
	queue    list.List // of *waiter, in the order in which they came
	accounts map[*Account]struct{}
	clients  map[string]*client // those with an open account
	grants   uint64
	refused  uint64
	ended    uint64
}

// waiter is an account that needs more.
type waiter struct {
	account *Account
	need    int64
	granted chan struct{}
}

// New makes a budget of a size, in which an account waits at most for wait.
func New(size int64, wait time.Duration) *Budget {
	return &Budget{size: size, wait: wait, accounts: map[*Account]struct{}{}, clients: map[string]*client{}}
}

// Stats are a budget's numbers.
type Stats struct {
	// Size bounds what is held, Used is held, and Floors are those of open accounts.
	Size, Used, Floors int64
	// Refused counts the requests that were refused, and Ended the accounts that were
	// ended for others.
	Refused, Ended uint64
}

// Stats returns the numbers of the moment.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Size: b.size, Used: b.used, Floors: b.floors, Refused: b.refused, Ended: b.ended}
}

// Account is the share of one request in a budget.
type Account struct {
	budget *Budget
	name   string  // of the client
	client *client // nil: a request of nobody, which no share bounds
	end    func()  // nil: it is never ended for others

	// The budget's mutex guards the rest.
	held   int64
	floor  int64
	busy   time.Time // when its work began; zero: it is idle
	ended  bool
	closed bool
}

// Open makes an account of a client that holds nothing yet. Close it when the request is over. "" is no
// client: its accounts have no share in common.
func (b *Budget) Open(client string) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openLocked(client)
}

// OpenEndable makes the account of a request that may be ended for others: by one call of
// end, from any goroutine. It takes the floor while it is open, and is never ended for
// this: the floors may be as large together as what is held. The error is ErrBusy.
func (b *Budget) OpenEndable(client string, floor int64, end func()) (*Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if free := b.size - b.floors; floor > free || !b.clients[client].mayTake(floor, free) {
		b.refused++
		return nil, ErrBusy
	}
	a := b.openLocked(client)
	a.end, a.floor = end, floor
	b.floors += floor
	if a.client != nil {
		a.client.floors += floor
	}
	b.accounts[a] = struct{}{}
	return a, nil
}

// Hold raises what the account holds to n bytes, or to the whole budget where that is
// less. It does not lower it: a request seldom frees memory before its end. The error is
// ErrBusy, or that of ctx.
func (a *Account) Hold(ctx context.Context, n int64) error {
	b := a.budget
	n = min(n, b.size)
	b.mu.Lock()
	w := &waiter{account: a, need: n - a.held, granted: make(chan struct{})}
	if w.need <= 0 || b.queue.Len() == 0 && b.used+w.need <= b.size && b.isWithinShare(w) {
		b.grantLocked(w)
		b.mu.Unlock()
		return nil
	}
	if b.queue.Len() >= maxQueue || a.client != nil && a.client.waiting >= maxWaiting {
		b.refused++
		b.mu.Unlock()
		return ErrBusy
	}
	place := b.enqueueLocked(w)
	b.admitLocked()
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	default:
		return b.await(ctx, w, place)
	}
}

// await waits until the memory is granted, and ends others for that.
func (b *Budget) await(ctx context.Context, w *waiter, place *list.Element) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.wait, ErrBusy)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for ctx.Err() == nil {
		for _, end := range b.toEnd(w) {
			end()
		}
		select {
		case <-w.granted:
			return nil
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted: // meanwhile
		return nil
	default:
	}
	b.dequeueLocked(place)
	b.admitLocked()
	err := context.Cause(ctx)
	if errors.Is(err, ErrBusy) {
		b.refused++
	}
	return err
}

// grantLocked gives a waiter what it needs.
func (b *Budget) grantLocked(w *waiter) {
	a := w.account
	if !a.closed && w.need > 0 {
		a.held += w.need
		b.used += w.need
		if a.client != nil {
			b.grants++
			a.client.held += w.need
			a.client.last = b.grants
		}
	}
	a.busyLocked()
	close(w.granted)
}

// admitLocked grants what there is room for. One that needs more than there is room for holds up the others
// behind it, so that its turn comes.
func (b *Budget) admitLocked() {
	for place := b.nextLocked(); place != nil; place = b.nextLocked() {
		w := place.Value.(*waiter)
		if b.used+w.need > b.size && !w.account.closed {
			return
		}
		b.dequeueLocked(place)
		b.grantLocked(w)
	}
}

// toEnd chooses accounts to be ended for the next in the queue, and returns their end
// functions: first those that are idle, then those that have been at work for too long,
// since their clients do not read.
func (b *Budget) toEnd(w *waiter) (ends []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.accounts) == 0 {
		return nil
	}
	if next := b.nextLocked(); next == nil || next.Value != any(w) {
		return nil
	}
	short := b.used + w.need - b.size
	now := time.Now()
	var candidates []*Account
	for a := range b.accounts {
		switch {
		case a == w.account:
		case a.ended:
			short -= a.held // which it is about to free
		case a.held > 0 && (a.busy.IsZero() || now.Sub(a.busy) > patience):
			candidates = append(candidates, a)
		}
	}
	slices.SortFunc(candidates, func(x, y *Account) int {
		return cmp.Or(x.busy.Compare(y.busy), cmp.Compare(y.held, x.held))
	})
	for _, a := range candidates {
		if short <= 0 {
			break
		}
		short -= a.held
		a.ended = true
		b.ended++
		ends = append(ends, a.end)
	}
	return ends
}

// Busy is called when the account's request is at work. Hold does the same.
func (a *Account) Busy() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.busyLocked()
}

func (a *Account) busyLocked() {
	if a.busy.IsZero() {
		a.busy = time.Now()
	}
}

// Idle is called when the account's request has nothing to do.
func (a *Account) Idle() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.busy = time.Time{}
}

// Close frees what the account holds.
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
	b.leaveLocked(a)
	a.held, a.closed = 0, true
	b.admitLocked()
}

type key struct{}

// With returns a context whose account is used by Hold.
func With(ctx context.Context, a *Account) context.Context { return context.WithValue(ctx, key{}, a) }

// Hold is Account.Hold of the context's account. A context without one is the server's
// own, and not bounded.
func Hold(ctx context.Context, n int64) error {
	a, ok := ctx.Value(key{}).(*Account)
	if !ok {
		return nil
	}
	return a.Hold(ctx, n)
}
