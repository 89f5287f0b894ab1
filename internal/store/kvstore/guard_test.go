package kvstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// newKeeper is the keeper of a data directory that no other server opens.
func newKeeper(t testing.TB) (*ledger.Ledger, *ledger.Keeper) {
	t.Helper()
	l, err := ledger.Open(t.TempDir(), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, ledger.NewKeeper(l, ledger.KeeperOptions{Buckets: []string{"HOSTS"}})
}

// What Guard refuses is neither followed, nor made, nor written, and everybody who
// asks is told why.
func TestRefusedStoreIsNotTouched(t *testing.T) {
	js := natstest.Start(t).JetStream()
	var refusal atomic.Pointer[error]
	no := errors.New("this is another store")
	refusal.Store(&no)
	s := New(hostKind("HOSTS"), Options{Guard: func(context.Context, jetstream.JetStream) error {
		if err := refusal.Load(); err != nil {
			return *err
		}
		return nil
	}})
	run(t, s, js)
	testkit.Until(t, "the refusal is known", func() bool { return errors.Is(s.connection.ReadinessCheck(), no) })
	if _, err := js.Stream(t.Context(), "KV_HOSTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket was made: %v", err)
	}
	err := s.Create(t.Context(), hostKey(1), host(1), nil, 0)
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), no.Error()) {
		t.Errorf("a write gives %v, want a 503 that says why", err)
	}
	refusal.Store(nil)
	awaitReady(t, s)
	createHosts(t, s, 1, 2)
}

// NATS is emptied, or exchanged for another one, under a running server: it goes on
// from memory and writes nothing, not even in the moment after the reconnect.
func TestExchangedNATSIsNeitherFollowedNorWritten(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]func(*testing.T) string{
		"emptied": func(t *testing.T) string { return t.TempDir() },
		"foreign": func(t *testing.T) string {
			server := natstest.Start(t)
			js := server.JetStream()
			l, keeper := newKeeper(t)
			s := New(hostKind("HOSTS"), Options{Ledger: l, Guard: keeper.Guard})
			stop := run(t, s, js)
			awaitReady(t, s)
			createHosts(t, s, 7, 8)
			stop()
			server.Stop()
			return server.Copy()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := another(t)
			server := natstest.Start(t)
			js := server.JetStream()
			l, keeper := newKeeper(t)
			s := New(hostKind("HOSTS"), Options{Ledger: l, Guard: keeper.Guard})
			run(t, s, js)
			awaitReady(t, s)
			createHosts(t, s, 1, 3)

			// A writer that never rests, over the exchange.
			ctx, cancel := context.WithCancel(context.Background())
			var written atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := 1000; ctx.Err() == nil; i++ {
					if s.Create(ctx, hostKey(i), host(i), nil, 0) == nil {
						written.Add(1)
					}
				}
			}()
			testkit.Until(t, "the writer writes", func() bool { return written.Load() > 5 })
			before := keeper.Mismatch()
			server.Stop()
			server.Use(other)
			server.Restart()
			var mismatch *ledger.Mismatch
			testkit.Until(t, "the other store is refused", func() bool { return errors.As(s.connection.ReadinessCheck(), &mismatch) })
			cancel()
			<-done
			if before != nil || keeper.Mismatch() == nil {
				t.Errorf("the keeper says %v before and %v after", before, keeper.Mismatch())
			}
			h := &v1.BareMetalHost{}
			if err := s.Get(t.Context(), hostKey(1), storage.GetOptions{ResourceVersion: "0"}, h); err != nil ||
				h.Name != host(1).Name {
				t.Errorf("read %q from memory", h.Name)
			}
			err := s.Create(t.Context(), hostKey(9), host(9), nil, 0)
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), mismatch.Reason) {
				t.Errorf("a write gives %v, want a 503 that says why", err)
			}
			if info := streamInfo(t, server.JetStream(), "HOSTS"); info.State.Msgs > 1 {
				t.Errorf("%d messages are in the other store's bucket: it was written", info.State.Msgs)
			}
		})
	}
}

// After a reconnect nothing is written before Guard has answered.
func TestNothingIsWrittenBeforeGuardAnswers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	hold := make(chan struct{})
	var asked atomic.Int64
	s := New(hostKind("HOSTS"), Options{Guard: func(ctx context.Context, _ jetstream.JetStream) error {
		if asked.Add(1) == 1 {
			return nil
		}
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	js := server.JetStream()
	run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 1, 2)
	server.Restart()
	testkit.Until(t, "Guard is asked again", func() bool { return asked.Load() > 1 && js.Conn().IsConnected() })
	if err := s.Create(t.Context(), hostKey(2), host(2), nil, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a write before Guard has answered gives %v, want a 503", err)
	}
	close(hold)
	awaitReady(t, s)
	createHosts(t, s, 3, 4)
}

// A store that Guard refuses on the same connection is not written either.
func TestRefusalOnTheSameConnectionEndsWrites(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	no := errors.New("a bucket is missing")
	var asked atomic.Int64
	s := New(hostKind("HOSTS"), Options{Guard: func(context.Context, jetstream.JetStream) error {
		if asked.Add(1) == 1 {
			return nil
		}
		return no
	}})
	run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 1, 2)
	if err := js.DeleteStream(t.Context(), "KV_HOSTS"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the loss is refused", func() bool { return errors.Is(s.connection.ReadinessCheck(), no) })
	if _, err := js.CreateStream(t.Context(), s.bucket.streamConfig()); err != nil {
		t.Fatal(err)
	}
	err := s.Create(t.Context(), hostKey(2), host(2), nil, 0)
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), no.Error()) {
		t.Errorf("a write gives %v, want a 503 that says why", err)
	}
}

// readiness is an observer that notes whether the store was ready at each change.
type readiness struct {
	*record
	store *Store
}

func (r *readiness) Put(item Item) {
	r.add("put %s: %v", item.Key, r.store.ReadinessCheck())
}

// A write is answered as soon as its change was applied, and its writer may read at
// once: after a reconnect the store is up before it applies what it has missed.
func TestStoreIsUpBeforeItAppliesWhatItHasMissed(t *testing.T) {
	server := natstest.Start(t)
	other := New(hostKind("HOSTS"), Options{})
	run(t, other, server.JetStream())
	awaitReady(t, other)
	seen := &readiness{record: &record{}}
	var away atomic.Bool
	s := New(hostKind("HOSTS"), Options{Guard: func(ctx context.Context, _ jetstream.JetStream) error {
		if away.CompareAndSwap(true, false) {
			return other.Create(ctx, hostKey(1), host(1), nil, 0)
		}
		return nil
	}}, seen)
	seen.store = s
	js := server.JetStream()
	run(t, s, js)
	awaitReady(t, s)
	seen.take()
	away.Store(true)
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the change is observed", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return len(seen.lines) > 0
	})
	if diff := cmp.Diff([]string{"put default/host-000001: <nil>"}, seen.take()); diff != "" {
		t.Errorf("at the change that was missed (-want +got):\n%s", diff)
	}
}

// TestNothingIsWrittenThatMustNotBe: a data directory that cannot be written, or that another server may
// write too, refuses every write at once, deletes too; what was read is served, and the store stays ready.
func TestNothingIsWrittenThatMustNotBe(t *testing.T) {
	js := natstest.Start(t).JetStream()
	var refusal atomic.Pointer[error]
	s := New(hostKind("HOSTS"), Options{Exclusive: true, Writable: func() error {
		if err := refusal.Load(); err != nil {
			return *err
		}
		return nil
	}})
	run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 1, 2)
	no := errors.New("the file system is read-only")
	refusal.Store(&no)
	before := bucketRevision(t, js)
	for what, write := range map[string]func() error{
		"a create": func() error { return s.Create(t.Context(), hostKey(5), host(5), nil, 0) },
		"a delete": func() error {
			return s.Delete(t.Context(), hostKey(1), &v1.BareMetalHost{}, nil, storage.ValidateAllObjectFunc, nil,
				storage.DeleteOptions{})
		},
	} {
		if err := write(); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), no.Error()) {
			t.Errorf("%s gives %v, want a 503 that says why", what, err)
		}
	}
	if after := bucketRevision(t, js); after != before {
		t.Errorf("the bucket is at %d, and was at %d", after, before)
	}
	if err := s.connection.ReadinessCheck(); err != nil {
		t.Errorf("the store is not ready: %v", err)
	}
	refusal.Store(nil)
	createHosts(t, s, 5, 6)
}

func bucketRevision(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_HOSTS")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}
