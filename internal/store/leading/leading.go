// Package leading has work done by one of the servers of a store. Who leads is a record in the store with the fields of
// a Lease of coordination.k8s.io: the server that holds it renews it, and another one takes it over.
//
// No two servers do the work at the same time, and no clock of one is compared with that of another:
//
//   - The leader ends its work 5 s (renewDeadline) after the begin of the last renewal that the store has acknowledged.
//   - Another server takes the record over 7 s (duration) after it has seen the last renewal, which had begun before.
//     It takes the record that it has seen: one that was renewed meanwhile is not taken.
//
// Each measures a time by its own clock, which nobody sets (the monotonic one). So a clock would have to be 40 % faster
// than another for two to lead. Two more things are left: work that goes on for longer than 2 s after its context has
// ended, and a process that was stopped or starved and goes on before it sees that its time is over. Hence the
// work checks its context before each step, and each step does no harm if another server has done it already.
//
// After the death of a leader another one leads within 9 s: it has seen the last renewal within 1 s (pollInterval),
// waits 7 s and looks again within 1 s. A leader that is stopped gives the record back. That is why this is not
// client-go's leaderelection: its random pauses need a renewal each second for that bound.
package leading

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// duration is how long a record that nobody renews is left to its leader.
	duration = 7 * time.Second
	// renewDeadline is how long the leader goes on without a renewal, and renewInterval is between two of them.
	renewDeadline = 5 * time.Second
	renewInterval = 2 * time.Second
	// pollInterval is how often the others look.
	pollInterval = time.Second
	// releaseTimeout bounds how long a leader that stops gives the record back.
	releaseTimeout = 2 * time.Second
)

// Records are the records of a store by the names of the work.
type Records interface {
	// Read returns a record and its revision; 0: there is none.
	Read(ctx context.Context, name string) (content []byte, revision uint64, err error)
	// Take writes a record that has the revision expect, and returns its new one; 0: somebody else wrote it first.
	Take(ctx context.Context, name string, content []byte, expect uint64) (revision uint64, err error)
	// Renew is Take of a record that this server has written last.
	Renew(ctx context.Context, name string, content []byte, expect uint64) (revision uint64, err error)
}

// Options are the parts of Elections.
type Options struct {
	// Records are those of the store; nil: no other server has it, so this one leads.
	Records Records
	// Server is the id of this server among those of the store. No other process has it.
	Server string
	// Changed is called after this server has begun or ended to lead; nil: nothing is called.
	Changed func()
	Logger  *slog.Logger
}

// Elections know which work this server leads. They are safe for concurrent use.
type Elections struct {
	opts Options

	mu  sync.Mutex
	led map[string]bool
}

// New returns Elections.
func New(opts Options) *Elections {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	return &Elections{opts: opts, led: map[string]bool{}}
}

// Led reports whether this server leads some work now.
func (e *Elections) Led(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.led[name]
}

// Names returns the work that this server leads now, sorted.
func (e *Elections) Names() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.led {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run has work done while this server leads it, each time that it does, until ctx ends. The context of the work ends
// when the server no longer leads: it then has 2 s to return. Work that returns earlier is not begun again before
// another pollInterval, by this server or another one. A name has letters, digits and hyphens, and one Run at a time.
func (e *Elections) Run(ctx context.Context, name string, work func(context.Context)) {
	if e.opts.Records == nil {
		e.note(name, true)
		defer e.note(name, false)
		work(ctx)
		return
	}
	c := &candidate{Elections: e, name: name}
	for ctx.Err() == nil {
		if c.stand(ctx) {
			c.lead(ctx, work)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

func (e *Elections) note(name string, leads bool) {
	e.mu.Lock()
	if leads {
		e.led[name] = true
	} else {
		delete(e.led, name)
	}
	e.mu.Unlock()
	e.opts.Changed()
}

// candidate is this server in one election.
type candidate struct {
	*Elections
	name string
	// record is what was read or written last, with its revision; seen is when it was first read.
	record   coordinationv1.LeaseSpec
	revision uint64
	seen     time.Time
	// renewed is the begin of the last renewal that was acknowledged.
	renewed time.Time
}

// read reads the record. One that cannot be decoded is nobody's.
func (c *candidate) read(ctx context.Context) error {
	content, revision, err := c.opts.Records.Read(ctx, c.name)
	if err != nil {
		return err
	}
	if revision != c.revision || c.seen.IsZero() {
		c.record = coordinationv1.LeaseSpec{}
		_ = json.Unmarshal(content, &c.record)
		c.revision, c.seen = revision, time.Now()
	}
	return nil
}

func (c *candidate) holder() string {
	if c.record.HolderIdentity == nil {
		return ""
	}
	return *c.record.HolderIdentity
}

// stand takes the record over if it is free, and reports whether this server leads.
func (c *candidate) stand(ctx context.Context) bool {
	if err := c.read(ctx); err != nil {
		c.opts.Logger.Debug("who leads is not known", "work", c.name, "error", err)
		return false
	}
	// This server's own record is from before it was started again: no other process has its id.
	if holder := c.holder(); holder != "" && holder != c.opts.Server && time.Since(c.seen) < duration {
		return false
	}
	now := metav1.NewMicroTime(time.Now())
	next := coordinationv1.LeaseSpec{
		HolderIdentity: &c.opts.Server, LeaseDurationSeconds: new(int32(duration / time.Second)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(1)),
	}
	if c.record.LeaseTransitions != nil {
		next.LeaseTransitions = new(*c.record.LeaseTransitions + 1)
	}
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	isTaken, err := c.write(ctx, &next, c.opts.Records.Take)
	if err != nil {
		c.opts.Logger.Debug("the lead cannot be taken", "work", c.name, "error", err)
	}
	return isTaken && time.Since(c.renewed) < renewDeadline
}

// write writes the record, and reports whether nobody else wrote it first.
func (c *candidate) write(ctx context.Context, next *coordinationv1.LeaseSpec,
	write func(ctx context.Context, name string, content []byte, expect uint64) (uint64, error)) (bool, error) {
	began := time.Now()
	content, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	revision, err := write(ctx, c.name, content, c.revision)
	if err != nil || revision == 0 {
		return false, err
	}
	c.record, c.revision, c.seen, c.renewed = *next, revision, time.Now(), began
	return true, nil
}

// lead has the work done for as long as the record is renewed, and gives it back if ctx or the work ends first.
func (c *candidate) lead(ctx context.Context, work func(context.Context)) {
	led, end := context.WithCancel(ctx)
	defer end()
	over := time.AfterFunc(time.Until(c.renewed.Add(renewDeadline)), end)
	defer over.Stop()
	c.note(c.name, true)
	c.opts.Logger.Info("this server leads", "work", c.name)
	done := make(chan struct{})
	go func() { defer close(done); work(led) }()
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for isLeader := true; isLeader; {
		select {
		case <-led.Done():
			isLeader = false
		case <-done:
			isLeader = false
		case <-ticker.C:
			if isLeader = c.renew(led); isLeader {
				over.Reset(time.Until(c.renewed.Add(renewDeadline)))
			}
		}
	}
	lost := led.Err() != nil && ctx.Err() == nil || c.holder() != c.opts.Server
	end()
	<-done
	c.note(c.name, false)
	if lost {
		c.opts.Logger.Warn("this server no longer leads: the store was away, or another server leads", "work", c.name)
		return
	}
	c.release(context.WithoutCancel(ctx))
}

// renew renews the record, and reports whether this server still leads as far as it knows. A renewal without an answer
// counts only for the others.
func (c *candidate) renew(ctx context.Context) bool {
	for range 2 {
		next := c.record
		next.RenewTime = new(metav1.NewMicroTime(time.Now()))
		isWritten, err := c.write(ctx, &next, c.opts.Records.Renew)
		if isWritten {
			return true
		}
		if err == nil {
			err = c.read(ctx) // it may be a renewal of this server that was not answered
		}
		if err != nil {
			c.opts.Logger.Debug("the lead is not renewed", "work", c.name, "error", err)
			return true // until renewDeadline
		}
		if c.holder() != c.opts.Server {
			return false
		}
	}
	return true
}

// release gives the record back.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for range 2 {
		next := c.record
		next.HolderIdentity = nil
		isWritten, err := c.write(ctx, &next, c.opts.Records.Renew)
		if err == nil && !isWritten {
			err = c.read(ctx) // the last renewal may have been on its way
		}
		if err != nil {
			c.opts.Logger.Debug("the lead is not given back: another server leads after a while", "work", c.name, "error", err)
		}
		if isWritten || err != nil || c.holder() != c.opts.Server {
			return
		}
	}
}
