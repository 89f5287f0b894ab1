package members

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is the pace of tests.
var quick = pace{write: 100 * time.Millisecond, look: 10 * time.Millisecond, missing: time.Second}

// server is a server of a store.
type server struct {
	*Book
	*kvstore.Store
	t *testing.T
	// away is true while it does not reach the store; writes counts what it writes.
	away   atomic.Bool
	writes atomic.Int32
	// leads is whether it leads the look at the others; problem is what /readyz says.
	leads   bool
	problem atomic.Pointer[string]
	stop    func()
}

func (s *server) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, isNew bool,
	p *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	if s.away.Load() {
		return errors.New("the store is away")
	}
	s.writes.Add(1)
	return s.Store.GuaranteedUpdate(ctx, key, out, isNew, p, update, cached)
}

func (s *server) Delete(ctx context.Context, key string, out runtime.Object, p *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	return s.Store.Delete(ctx, key, out, p, validate, cached, opts)
}

// start has a server run until it is stopped.
func start(t *testing.T, js jetstream.JetStream, id, host string, leads bool, change ...func(*server)) *server {
	t.Helper()
	s := &server{t: t, leads: leads}
	s.Book = New(Options{Server: id, Host: host, Registerer: prometheus.NewRegistry(),
		Describe: func() (status v1.MemberStatus) {
			if p := s.problem.Load(); p != nil {
				status.Errors = []string{*p}
			}
			return status
		},
		Lead: func(ctx context.Context, _ string, work func(context.Context)) {
			if s.leads {
				work(ctx)
			}
		},
	})
	s.pace = quick
	for _, c := range change {
		c(s)
	}
	s.Store = kvstore.New(objects.Stored(kinds.Of(kinds.Members)), kvstore.Options{}, s.Book)
	kvtest.Run(t, js, s.Store)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Book.Run(ctx, s) })
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

// get returns a Member as a server sees it; nil: there is none.
func (s *server) get(name string) *v1.Member {
	m := &v1.Member{}
	if s.Store.Get(s.t.Context(), prefix+name, storage.GetOptions{ResourceVersion: "0"}, m) != nil {
		return nil
	}
	return m
}

// await waits until a Member has a state.
func (s *server) await(name, state string) *v1.Member {
	s.t.Helper()
	testkit.Until(s.t, name+" is "+state, func() bool { m := s.get(name); return m != nil && m.Status.State == state })
	return s.get(name)
}

// TestEachServerIsListed: each server has a Member, with the name of its machine; where two machines have the same
// name, with a part of the id.
func TestEachServerIsListed(t *testing.T) {
	js := kvtest.JetStream(t)
	a := start(t, js, "AAAAAAAA", "Boot_1.example", false)
	a.await("boot-1.example", v1.MemberReady)
	b := start(t, js, "BBBBBBBB", "Boot_1.example", false)
	if m := b.await("boot-1.example-bbbbb", v1.MemberReady); m.Status.ID != "BBBBBBBB" || m.Status.Started.IsZero() {
		t.Errorf("%+v", m.Status)
	}
	a.problem.Store(new("nats: " + strings.Repeat("x", 2*maxError)))
	if m := b.await("boot-1.example", v1.MemberNotReady); len(m.Status.Errors) != 1 || len(m.Status.Errors[0]) != maxError {
		t.Errorf("%+v", m.Status)
	}
	a.stop()
	if m := b.await("boot-1.example", v1.MemberStopped); len(m.Status.Errors) != 0 {
		t.Errorf("%+v", m.Status)
	}
	c := start(t, js, "CCCCCCCC", "boot-1.example", false)
	if m := c.await("boot-1.example", v1.MemberReady); m.Status.ID != "CCCCCCCC" {
		t.Errorf("the name of a server that was stopped is not taken over: %+v", m.Status)
	}
	want := `# HELP glowplug_members Servers of the store by the state of their Member: Ready, NotReady, Missing (not seen for 30 s) and Stopped.
# TYPE glowplug_members gauge
glowplug_members{state="Missing"} 0
glowplug_members{state="NotReady"} 0
glowplug_members{state="Ready"} 2
glowplug_members{state="Stopped"} 0
`
	testkit.Until(t, "b and c are counted", func() bool {
		return testutil.CollectAndCompare(collector{b.Book}, strings.NewReader(want)) == nil
	})
}

// TestADeadServerIsMissing: a server that was killed is noted as missing, and one that comes back is ready again. The
// server that leads is never missing, nor one that was stopped.
func TestADeadServerIsMissing(t *testing.T) {
	js := kvtest.JetStream(t)
	a := start(t, js, "A", "a", true)
	b := start(t, js, "B", "b", false)
	c := start(t, js, "C", "c", false)
	for _, name := range []string{"a", "b", "c"} {
		a.await(name, v1.MemberReady)
	}
	c.stop()
	a.await("c", v1.MemberStopped)
	b.away.Store(true)
	was := a.get("b").Status.LastSeen
	if m := a.await("b", v1.MemberMissing); m.Status.LastSeen.Time.Sub(was.Time) > 2*quick.write+time.Second {
		t.Error("the time at which it was seen last is another one")
	}
	b.away.Store(false)
	a.await("b", v1.MemberReady)
	if a.get("a").Status.State != v1.MemberReady || a.get("c").Status.State != v1.MemberStopped {
		t.Errorf("a is %s, c is %s", a.get("a").Status.State, a.get("c").Status.State)
	}
}

// TestAMemberIsWrittenSeldom: where nothing changes, a Member is written at intervals; a change is written at once, and
// what was deleted comes back.
func TestAMemberIsWrittenSeldom(t *testing.T) {
	slow := func(s *server) { s.pace = pace{write: time.Hour, look: time.Millisecond, missing: time.Hour} }
	a := start(t, kvtest.JetStream(t), "A", "a", false, slow)
	a.await("a", v1.MemberReady)
	time.Sleep(100 * time.Millisecond) // it looks
	if n := a.writes.Load(); n != 1 {
		t.Errorf("written %d times", n)
	}
	a.problem.Store(new("nats: away"))
	a.await("a", v1.MemberNotReady)
	at := time.Now().Truncate(time.Second)
	a.SetLastBackup(at)
	testkit.Until(t, "the backup is noted", func() bool { b := a.get("a").Status.LastBackup; return b != nil && b.Time.Equal(at) })
	err := a.Delete(t.Context(), prefix+"a", &v1.Member{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.await("a", v1.MemberNotReady)
	if n := a.writes.Load(); n > 4 {
		t.Errorf("written %d times", n)
	}
}

// TestTheLastBackupOutlivesTheServer: a server that is started again still says when its last backup was.
func TestTheLastBackupOutlivesTheServer(t *testing.T) {
	js, at := kvtest.JetStream(t), metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	a := start(t, js, "A", "a", false)
	a.await("a", v1.MemberReady)
	a.SetLastBackup(at.Time)
	testkit.Until(t, "it is noted", func() bool { return a.get("a").Status.LastBackup != nil })
	a.stop()
	a.await("a", v1.MemberStopped)
	again := start(t, js, "A", "a", false)
	if m := again.await("a", v1.MemberReady); !m.Status.LastBackup.Equal(&at) {
		t.Errorf("the last backup was at %v", m.Status.LastBackup)
	}
}

// TestAnEmbeddedStoreHasOneServer: with a store that no other server has, the Members of others are from before, such
// as of a copy of the data folder.
func TestAnEmbeddedStoreHasOneServer(t *testing.T) {
	js := kvtest.JetStream(t)
	a := start(t, js, "A", "a", false)
	a.await("a", v1.MemberReady)
	a.away.Store(true)
	a.stop()
	b := start(t, js, "B", "b", false, func(s *server) { s.opts.Exclusive = true })
	b.await("b", v1.MemberReady)
	testkit.Until(t, "the other is gone", func() bool { return b.get("a") == nil })
}
