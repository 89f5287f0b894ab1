package progress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/kvstore/kvtest"
)

// memoryLog is a boot log in memory, which can be away.
type memoryLog struct {
	mu       sync.Mutex
	applied  func(bootlog.Batch)
	messages []bootlog.Batch
	sequence uint64
	trimmed  uint64
	failure  error
}

func (l *memoryLog) Append(_ context.Context, records []bootlog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		return l.failure
	}
	l.applied(l.add(records, true))
	return nil
}

// add makes a message as the boot log would.
func (l *memoryLog) add(records []bootlog.Record, own bool) bootlog.Batch {
	l.sequence++
	batch := bootlog.Batch{Sequence: l.sequence, Own: own, Live: true, Records: slices.Clone(records)}
	for i := range batch.Records {
		batch.Records[i].Progress.Position = l.sequence
	}
	l.messages = append(l.messages, batch)
	return batch
}

func (l *memoryLog) Trim(_ context.Context, upTo uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = upTo
	return nil
}

func (l *memoryLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// steps counts the events of what machines do.
type steps struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *steps) RecordStep(host model.Ref, _, reason, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[reason+" "+host.String()]++
}

// rig is a running tracker over a log in memory, in a bubble of its own time.
type rig struct {
	*Tracker
	log   *memoryLog
	steps *steps
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{log: &memoryLog{}, steps: &steps{n: map[string]int{}}}
	r.Tracker = New(Options{Events: r.steps})
	r.log.applied = r.Apply
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, r.log) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

func (r *rig) add(name string) *model.Host {
	return &model.Host{Ref: model.Ref{Namespace: "g10", Name: name}, UID: "uid-" + name}
}

var config = &model.Config{Ref: model.Ref{Namespace: "g10", Name: "builder"}, Hash: "sha256:abc"}

// TestCompleteIsDurable: a boot-complete is answered once the boot log has it, and
// refused while the log is away; the machine's state is right meanwhile.
func TestCompleteIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		if err := r.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		if got := r.log.messages[0].Records[0]; got.Progress.State != v1.StateProvisioned || got.UID != host.UID {
			t.Fatalf("in the boot log: %+v", got)
		}
		if err := r.Complete(t.Context(), host); err != nil || len(r.log.messages) != 1 {
			t.Fatalf("said again: %v, %d messages", err, len(r.log.messages))
		}

		other := r.add("server2")
		r.log.fail(errors.New("the disk is full"))
		began := time.Now()
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > completeTimeout {
			t.Fatalf("with the log away: %v after %v", err, time.Since(began))
		}
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > 2*completeTimeout {
			t.Fatalf("and again: %v after %v", err, time.Since(began))
		}
		if armed, _ := decide.Armed(other, r.Progress(other)); armed {
			t.Fatal("a machine that is done would install again")
		}
		r.log.fail(nil)
		if err := r.Complete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if n := r.steps.n["BootComplete g10/server2"]; n != 1 {
			t.Errorf("%d events of what was answered", n)
		}
	})
}

// TestOtherServerKnows: a machine that completes at one server and asks another one
// in the next moment boots its disk.
func TestOtherServerKnows(t *testing.T) {
	js := kvtest.JetStream(t)
	start := func() *Tracker {
		tracker := New(Options{}) // no status ever says it to the other
		log := bootlog.New(bootlog.Options{Taken: tracker.Apply})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { log.Run(ctx, js) })
		running.Go(func() { tracker.Run(ctx, log) })
		t.Cleanup(func() { cancel(); running.Wait() })
		eventuallyReady(t, log)
		return tracker
	}
	a, b := start(), start()
	for i := range 50 {
		host := &model.Host{Ref: model.Ref{Namespace: "g10", Name: fmt.Sprint("h", i)}, UID: "u"}
		if err := a.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Second)
		for b.Progress(host).State != v1.StateProvisioned {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the other server has %+v", host.Ref, b.Progress(host))
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func eventuallyReady(t *testing.T, log *bootlog.Log) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); log.ReadinessCheck() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(log.ReadinessCheck())
		}
	}
}
