package leading

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server that stands for the lead.
type server struct {
	*Elections
	Records
	// away is set while the server does not reach the store.
	away atomic.Bool
	// leads counts the work under way in this server, and all that of all servers.
	leads, all *atomic.Int32
	stop       func()
}

var errAway = errors.New("the store is away")

func (s *server) Read(ctx context.Context, name string) ([]byte, uint64, error) {
	if s.away.Load() {
		return nil, 0, errAway
	}
	return s.Records.Read(ctx, name)
}

func (s *server) Take(ctx context.Context, name string, content []byte, expect uint64) (uint64, error) {
	if s.away.Load() {
		return 0, errAway
	}
	return s.Records.Take(ctx, name, content, expect)
}

func (s *server) Renew(ctx context.Context, name string, content []byte, expect uint64) (uint64, error) {
	if s.away.Load() {
		return 0, errAway
	}
	return s.Records.Renew(ctx, name, content, expect)
}

// run has a server stand for the work "x" until it is stopped. all counts the work under way, and the test fails where
// it is more than one.
func run(t *testing.T, id string, records Records, all *atomic.Int32) *server {
	t.Helper()
	s := &server{Records: records, leads: new(atomic.Int32), all: all}
	s.Elections = New(Options{Records: s, Server: id})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		s.Run(ctx, "x", func(ctx context.Context) {
			if n := all.Add(1); n > 1 {
				t.Errorf("%s begins while another server does the work", id)
			}
			s.leads.Store(1)
			<-ctx.Done()
			s.leads.Store(0)
			all.Add(-1)
		})
	})
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

// records returns those of a server with a data folder of its own.
func records(t *testing.T, store *natstest.Server) Records {
	t.Helper()
	l, err := ledger.Open(t.TempDir(), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return ledger.NewKeeper(l, ledger.KeeperOptions{}).Leaders(natstest.JetStream(t, store.URL()))
}

// TestAnotherServerLeadsSoon: of two servers on one NATS one leads. Within 10 s after it was killed the other one does,
// and at once after it was stopped. Never do both.
func TestAnotherServerLeadsSoon(t *testing.T) {
	store, all := natstest.Start(t), new(atomic.Int32)
	a := run(t, "a", records(t, store), all)
	testkit.Until(t, "a leads", func() bool { return a.leads.Load() == 1 })
	if !a.Led("x") || len(a.Names()) != 1 {
		t.Errorf("a says that it leads %v", a.Names())
	}
	b := run(t, "b", records(t, store), all)
	time.Sleep(2 * pollInterval) // b looks, and must not lead
	if b.Led("x") {
		t.Error("b leads as well")
	}
	a.away.Store(true) // so that it gives nothing back, as after kill -9
	a.stop()
	testkit.Within(t, 10*time.Second, "b leads after a was killed", func() bool { return b.leads.Load() == 1 })
	c := run(t, "c", records(t, store), all)
	testkit.Until(t, "c has seen that b leads", func() bool { return c.leads.Load() == 0 && b.Led("x") })
	b.stop()
	testkit.Within(t, 2*pollInterval, "c leads after b was stopped", func() bool { return c.leads.Load() == 1 })
}

// memory are the records of a store in memory.
type memory struct {
	mu       sync.Mutex
	content  []byte
	revision uint64
}

func (m *memory) Read(context.Context, string) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content, m.revision, nil
}

func (m *memory) Take(_ context.Context, _ string, content []byte, expect uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revision != expect {
		return 0, nil
	}
	m.content, m.revision = content, m.revision+1
	return m.revision, nil
}

func (m *memory) Renew(ctx context.Context, name string, content []byte, expect uint64) (uint64, error) {
	return m.Take(ctx, name, content, expect)
}

// TestALeaderWithoutTheStoreEndsFirst: a leader that does not reach the store ends its work 2 s before another server
// begins it, and leads again once that has stopped.
func TestALeaderWithoutTheStoreEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, all := &memory{}, new(atomic.Int32)
		a := run(t, "a", store, all)
		synctest.Wait()
		time.Sleep(pollInterval / 2)
		b := run(t, "b", store, all)
		time.Sleep(time.Minute)
		if !a.Led("x") || b.Led("x") {
			t.Fatalf("a leads: %v, b leads: %v", a.Led("x"), b.Led("x"))
		}
		a.away.Store(true)
		began, ended := time.Now(), time.Time{}
		for ; !b.Led("x"); time.Sleep(time.Millisecond) {
			if ended.IsZero() && !a.Led("x") {
				ended = time.Now()
			}
		}
		switch {
		case ended.IsZero() || time.Since(ended) < duration-renewDeadline:
			t.Errorf("a has ended at %s, and b began %s later", ended, time.Since(ended))
		case time.Since(began) > duration+2*pollInterval:
			t.Errorf("b leads after %s", time.Since(began))
		}
		a.away.Store(false)
		time.Sleep(time.Minute)
		if a.Led("x") || !b.Led("x") {
			t.Error("the lead has gone back")
		}
		b.stop()
		time.Sleep(2 * pollInterval)
		if !a.Led("x") {
			t.Error("nobody leads")
		}
		a.stop()
	})
}

// TestARenewalWithoutAnAnswerCounts: a leader whose renewal was stored and not answered still leads.
func TestARenewalWithoutAnAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, all := &memory{}, new(atomic.Int32)
		a := run(t, "a", store, all)
		time.Sleep(pollInterval)
		store.mu.Lock()
		store.revision++ // as if it had been renewed
		store.mu.Unlock()
		for range 100 {
			if time.Sleep(100 * time.Millisecond); !a.Led("x") {
				t.Fatal("a does not lead any more")
			}
		}
		a.stop()
	})
}

// TestOneServerAloneLeads: a server whose store no other one has leads, and without a question.
func TestOneServerAloneLeads(t *testing.T) {
	e, changes := (*Elections)(nil), 0
	e = New(Options{Changed: func() { changes++ }})
	e.Run(t.Context(), "x", func(context.Context) {
		if !e.Led("x") {
			t.Error("it does not lead")
		}
	})
	if e.Led("x") || changes != 2 {
		t.Errorf("it leads: %v, after %d changes", e.Led("x"), changes)
	}
}
