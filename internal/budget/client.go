package budget

import (
	"cmp"
	"container/list"
)

// client has what the accounts of one client hold together.
type client struct {
	accounts     int // that are open
	held, floors int64
	waiting      int
	last         uint64 // the number of its last grant
}

// mayTake reports whether a client may hold floor more bytes when free bytes are left. Its total must not exceed
// the free bytes: one client gets at most half of the memory, and n clients leave 1/(n+1) of it to the next. A
// client without an account is not bounded; nor is a nil client.
func (c *client) mayTake(floor, free int64) bool {
	return c == nil || c.floors == 0 || c.floors+floor <= free
}

// sharer returns the client whose share bounds a waiter; nil: none does. An account that may be ended for others
// needs no share: others get what it holds anyway.
func (w *waiter) sharer() *client {
	if w.account.end != nil {
		return nil
	}
	return w.account.client
}

// isWithinShare is mayTake for what a waiter needs. What its own account holds does not count as a request of
// its client that is under way.
func (b *Budget) isWithinShare(w *waiter) bool {
	c := w.sharer()
	return c == nil || c.held == w.account.held || c.held+w.need <= b.size-b.used
}

// openLocked makes an account of a client.
func (b *Budget) openLocked(name string) *Account {
	a := &Account{budget: b, name: name}
	if name == "" {
		return a
	}
	if a.client = b.clients[name]; a.client == nil {
		a.client = &client{}
		b.clients[name] = a.client
	}
	a.client.accounts++
	return a
}

// leaveLocked takes an account from its client, and forgets a client without accounts.
func (b *Budget) leaveLocked(a *Account) {
	c := a.client
	if c == nil {
		return
	}
	c.held -= a.held
	c.floors -= a.floor
	if c.accounts--; c.accounts == 0 {
		delete(b.clients, a.name)
	}
}

func (b *Budget) enqueueLocked(w *waiter) *list.Element {
	if c := w.account.client; c != nil {
		c.waiting++
	}
	return b.queue.PushBack(w)
}

func (b *Budget) dequeueLocked(place *list.Element) {
	if c := place.Value.(*waiter).account.client; c != nil {
		c.waiting--
	}
	b.queue.Remove(place)
}

// nextLocked returns the waiter whose turn is next: of the clients within their share, of that which holds
// least, then of that whose last turn is longest ago, then the one that came first. nil: there is none.
func (b *Budget) nextLocked() (next *list.Element) {
	for place := b.queue.Front(); place != nil; place = place.Next() {
		w := place.Value.(*waiter)
		if b.isWithinShare(w) && (next == nil || w.isBefore(next.Value.(*waiter))) {
			next = place
		}
	}
	return next
}

func (w *waiter) isBefore(other *waiter) bool {
	var mine, others client
	if c := w.sharer(); c != nil {
		mine = *c
	}
	if c := other.sharer(); c != nil {
		others = *c
	}
	return cmp.Or(cmp.Compare(mine.held, others.held), cmp.Compare(mine.last, others.last)) < 0
}
