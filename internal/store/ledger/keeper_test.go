package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"glowplug/internal/store/natsd/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a data directory for an external store, until the test ends.
func open(t testing.TB, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// keep returns the keeper of a ledger for the buckets A and B.
func keep(l *Ledger) *Keeper {
	return NewKeeper(l, KeeperOptions{Buckets: []string{"A", "B"}})
}

// eventually repeats what a cluster may not answer for a moment, as a stream without a
// leader, and as a server does.
func eventually(t testing.TB, do func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for err := do(); err != nil; err = do() {
		if time.Now().After(deadline) || errors.As(err, new(*Mismatch)) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fill makes a bucket with n objects, as a server does: after the guard, and
// recorded.
func fill(t testing.TB, js jetstream.JetStream, l *Ledger, bucket string, n int) {
	t.Helper()
	if l != nil {
		eventually(t, func() error { return keep(l).Guard(t.Context(), js) })
	}
	var kv jetstream.KeyValue
	eventually(t, func() (err error) {
		kv, err = js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
		return err
	})
	var rev uint64
	for i := range n {
		eventually(t, func() (err error) {
			rev, err = kv.Put(t.Context(), fmt.Sprint("key-", i), []byte("value"))
			return err
		})
	}
	if l != nil {
		if err := errors.Join(l.Add(bucket), l.Reach(bucket, rev)); err != nil {
			t.Fatal(err)
		}
	}
}

// refused expects a *Mismatch with these words.
func refused(t testing.TB, err error, words ...string) {
	t.Helper()
	var m *Mismatch
	if !errors.As(err, &m) {
		t.Fatalf("the guard says %v, want a mismatch", err)
	}
	for _, w := range words {
		if !strings.Contains(m.Reason+"; "+m.Remedy, w) {
			t.Errorf("the mismatch %q (%s) does not speak of %q", m.Reason, m.Remedy, w)
		}
	}
}

func names(t testing.TB, js jetstream.JetStream) []string {
	t.Helper()
	var all []string
	for name := range js.StreamNames(t.Context()).Name() {
		all = append(all, name)
	}
	return all
}

func TestNewStoreGetsAnIdentity(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	for range 2 {
		if err := keep(l).Guard(t.Context(), js); err != nil {
			t.Fatal(err)
		}
	}
	id, _, err := readIdentity(t.Context(), js)
	if err != nil || id == nil || id.ID == "" || id.ID != l.snapshot().ID {
		t.Errorf("NATS has %+v, %v; the data directory has %q", id, err, l.snapshot().ID)
	}
}

func TestNewDataDirectoryJoins(t *testing.T) {
	js := natstest.Start(t).JetStream()
	one, two := open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, js, one, "A", 3)
	if err := keep(two).Guard(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if one.snapshot().ID != two.snapshot().ID {
		t.Errorf("two servers of one store have %q and %q", one.snapshot().ID, two.snapshot().ID)
	}
}

// Servers that start at once on an empty NATS agree on one identity.
func TestTwoServersBeginOneStore(t *testing.T) {
	js := natstest.Start(t).JetStream()
	ledgers := make([]*Ledger, 8)
	for i := range ledgers {
		ledgers[i] = open(t, t.TempDir())
	}
	var starting sync.WaitGroup
	for _, l := range ledgers {
		starting.Go(func() {
			if err := keep(l).Guard(context.Background(), js); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	for _, l := range ledgers {
		if id := l.snapshot().ID; id == "" || id != ledgers[0].snapshot().ID {
			t.Errorf("one server has identity %q, another %q", ledgers[0].snapshot().ID, id)
		}
	}
}

// late writes only when it is told to.
type late struct {
	jetstream.JetStream
	arrived, proceed chan struct{}
}

func (l late) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	close(l.arrived)
	<-l.proceed
	return l.JetStream.PublishMsg(ctx, msg, opts...)
}

// Of two servers that both found NATS empty the one that writes last takes the
// identity of the first.
func TestLateServerTakesTheIdentityOfTheFirst(t *testing.T) {
	js := natstest.Start(t).JetStream()
	first, second := open(t, t.TempDir()), open(t, t.TempDir())
	slow := late{js, make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() { done <- keep(second).Guard(context.Background(), slow) }()
	<-slow.arrived
	if err := keep(first).Guard(t.Context(), js); err != nil {
		t.Error(err)
	}
	close(slow.proceed)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := keep(first).Guard(t.Context(), js); err != nil || first.snapshot().ID != second.snapshot().ID {
		t.Errorf("the first has %q, the second %q; the first is told %v", first.snapshot().ID, second.snapshot().ID, err)
	}
}

// NATS that lost everything, or was started on another folder, is not taken for a
// new store, and nothing is made in it.
func TestWipedNATSIsRefused(t *testing.T) {
	server := natstest.Start(t)
	js, dir := server.JetStream(), t.TempDir()
	l := open(t, dir)
	fill(t, js, l, "A", 3)
	id := l.snapshot().ID
	server.Stop()
	server.Use(t.TempDir())
	server.Restart()
	l.Close()
	l = open(t, dir) // after a restart of the server, too
	for range 2 {
		refused(t, keep(l).Guard(t.Context(), server.JetStream()), id, "no store", "glowplug store init")
	}
	if all := names(t, server.JetStream()); len(all) > 0 {
		t.Errorf("these streams were made: %v", all)
	}
}

func TestForeignStoreIsRefused(t *testing.T) {
	one, two := natstest.Start(t).JetStream(), natstest.Start(t).JetStream()
	l, other := open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, one, l, "A", 3)
	fill(t, two, other, "A", 5)
	refused(t, keep(l).Guard(t.Context(), two), l.snapshot().ID, other.snapshot().ID, "glowplug store adopt")
	if err := keep(l).Guard(t.Context(), one); err != nil {
		t.Errorf("its own store gives %v", err)
	}
}

// A backup that is older than what was seen is refused: after a restart of
// everything, and under a server that is running.
func TestOlderBackupIsRefused(t *testing.T) {
	server := natstest.Start(t)
	js, dir := server.JetStream(), t.TempDir()
	l := open(t, dir)
	fill(t, js, l, "A", 3)
	fill(t, js, l, "B", 1)
	server.Stop()
	backup := server.Copy()
	server.Restart()
	js = server.JetStream()
	running := keep(l)
	fill(t, js, l, "A", 5)
	if err := running.Guard(t.Context(), js); err != nil {
		t.Fatal(err)
	}

	server.Stop()
	server.Use(backup)
	server.Restart()
	js = server.JetStream()
	refused(t, running.Guard(t.Context(), js), "older", "A is at revision 3 and had reached 8")
	l.Close()
	refused(t, keep(open(t, dir)).Guard(t.Context(), js), "older", "A is at revision 3 and had reached 8",
		"glowplug store adopt")
}

func TestMissingBucketIsRefused(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	fill(t, js, l, "B", 3)
	if err := keep(l).record(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "KV_A"); err != nil {
		t.Fatal(err)
	}
	refused(t, keep(l).Guard(t.Context(), js), "lacks buckets that existed: A")
	// A server that is running notices it without a reconnect.
	running := keep(l)
	if refused(t, running.record(t.Context(), js), "lacks buckets that existed: A"); running.Mismatch() == nil {
		t.Error("the keeper of a running server is content")
	}
	// A server with a new data directory learns of it from the store's own record.
	refused(t, keep(open(t, t.TempDir())).Guard(t.Context(), js), "lacks buckets that existed: A")
}

// A kind of a later release has no bucket yet, which is no reason to refuse the store. Once it
// has one, a store without it is refused.
func TestBucketOfALaterRelease(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	if err := keep(l).record(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := keep(l).Guard(t.Context(), js); err != nil { // which asks for B, too
		t.Fatal(err)
	}
	fill(t, js, l, "B", 1)
	if err := keep(l).record(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "KV_B"); err != nil {
		t.Fatal(err)
	}
	refused(t, keep(l).Guard(t.Context(), js), "lacks buckets that existed: B")
}

// A store of a release without identities gets one, once.
func TestExternalStoreOfAnEarlierReleaseIsAdopted(t *testing.T) {
	js := natstest.Start(t).JetStream()
	fill(t, js, nil, "A", 3)
	one, two := open(t, t.TempDir()), open(t, t.TempDir())
	for _, l := range []*Ledger{one, two, one} {
		if err := keep(l).Guard(t.Context(), js); err != nil {
			t.Fatal(err)
		}
	}
	id, _, err := readIdentity(t.Context(), js)
	if err != nil || id == nil || id.ID != one.snapshot().ID || id.ID != two.snapshot().ID || id.Buckets["A"] != 3 {
		t.Errorf("the store has %+v, %v; the servers %q and %q", id, err, one.snapshot().ID, two.snapshot().ID)
	}
}

// A data directory with an embedded store of a release without identities is not
// used for whatever NATS holds.
func TestDataDirectoryOfAnEmbeddedStoreIsRefused(t *testing.T) {
	js := natstest.Start(t).JetStream()
	dir := t.TempDir()
	if err := ReplaceFile(dir+"/store.json", []byte(`{"version":1,"buckets":["A"],"revisions":{"A":7}}`)); err != nil {
		t.Fatal(err)
	}
	refused(t, keep(open(t, dir)).Guard(t.Context(), js), "embedded store", "without --nats-url")
}

// What cannot be known is not taken for an empty store: NATS is away, or the
// cluster has no leader.
func TestNoAnswerIsNoNews(t *testing.T) {
	t.Parallel()
	nodes := natstest.Cluster(t, 3)
	js := nodes[0].JetStream()
	known, unused := open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, js, known, "A", 3)
	nodes[1].Stop()
	nodes[2].Stop()
	ask := func(l *Ledger) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := keep(l).Guard(ctx, js)
		if errors.As(err, new(*Mismatch)) {
			t.Errorf("a cluster without a majority gives the mismatch %v", err)
		}
		return err
	}
	// A server that was the leader answers for some seconds more.
	deadline := time.Now().Add(30 * time.Second)
	for ask(known) == nil {
		if time.Now().After(deadline) {
			t.Fatal("a cluster without a majority goes on answering")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := ask(unused); err == nil {
		t.Error("a new server has got an answer from a cluster without a majority")
	}
	nodes[0].Stop()
	if err := keep(known).Guard(t.Context(), js); err == nil || errors.As(err, new(*Mismatch)) {
		t.Errorf("NATS that is away gives %v", err)
	}
	for _, n := range nodes {
		n.Restart()
	}
	eventually(t, func() error { return keep(known).Guard(t.Context(), js) })
	if unused.snapshot().ID != "" {
		t.Error("the new data directory took an identity from a cluster that did not answer")
	}
}

// deposed answers as a server does for a moment that was the leader before a
// partition: without a leader, and behind.
type deposed struct {
	jetstream.JetStream
	stream string // only of this one; empty: of all
}

func (d deposed) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := d.JetStream.Stream(ctx, name)
	if err != nil || d.stream != "" && d.stream != name {
		return s, err
	}
	return deposedStream{s}, nil
}

type deposedStream struct{ jetstream.Stream }

func (d deposedStream) CachedInfo() *jetstream.StreamInfo {
	info := *d.Stream.CachedInfo()
	info.Cluster = &jetstream.ClusterInfo{Name: "test"}
	info.State.LastSeq /= 2
	return &info
}

func TestAnswerWithoutALeaderIsNoNews(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 8)
	if err := keep(l).Guard(t.Context(), deposed{js, ""}); !errors.Is(err, errNoLeader) {
		t.Errorf("the guard says %v, want an error that is no mismatch", err)
	}
	// One bucket whose leader is away is not judged, and the others are followed.
	if err := keep(l).Guard(t.Context(), deposed{js, "KV_A"}); err != nil {
		t.Errorf("a bucket without a leader gives %v", err)
	}
	k := keep(l)
	if _, err := k.Survey(t.Context(), deposed{js, "KV_A"}); err == nil || !strings.Contains(err.Error(),
		"bucket A does not answer") {
		t.Errorf("an operator is shown a bucket that nobody knows: %v", err)
	}
}

// interrupted loses the connection between the identity and the buckets.
type interrupted struct {
	jetstream.JetStream
	lose func()
}

func (i interrupted) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name != identityStream {
		i.lose()
	}
	return i.JetStream.Stream(ctx, name)
}

// An answer of which one half came before a reconnect and the other after it, from
// another NATS perhaps, is none.
func TestReconnectWhileLookingIsNoNews(t *testing.T) {
	server := natstest.Start(t)
	js := server.JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	lose := sync.OnceFunc(func() {
		server.Restart()
		for !js.Conn().IsConnected() || js.Conn().Stats().Reconnects == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	if err := keep(l).Guard(t.Context(), interrupted{js, lose}); !errors.Is(err, errReconnected) {
		t.Errorf("the guard says %v", err)
	}
	if err := keep(l).Guard(t.Context(), js); err != nil {
		t.Errorf("after it the guard says %v", err)
	}
}

// A mismatch that lasts is logged once, as an error with the remedy, and is a
// metric; its end is told as well.
func TestMismatchIsAnAlarm(t *testing.T) {
	t.Parallel()
	js, other := natstest.Start(t).JetStream(), natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 1)
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	k := NewKeeper(l, KeeperOptions{Buckets: []string{"A"}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Registerer: reg})
	metric := func(want float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "glowplug_store_identity_mismatch" {
			t.Fatalf("the metrics are %v, %v", families, err)
		}
		if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("the metric is %v, want %v", got, want)
		}
	}
	refused(t, k.Guard(t.Context(), other), "no store")
	metric(0) // a cluster may say so for a moment
	for began := time.Now(); time.Since(began) < alarmAfter+200*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		refused(t, k.Guard(t.Context(), other), "no store")
	}
	metric(1)
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "glowplug store init") ||
		k.Mismatch() == nil {
		t.Errorf("%d errors in the log, want one with the remedy:\n%s", n, log.String())
	}
	if err := k.Guard(t.Context(), js); err != nil || k.Mismatch() != nil {
		t.Errorf("the right store gives %v, %v", err, k.Mismatch())
	}
	metric(0)
	if !strings.Contains(log.String(), "is again the one") {
		t.Errorf("the end of the alarm is not logged:\n%s", log.String())
	}
}

// forgetful says for some time that there is no such stream, as a server may do
// that has just come back.
type forgetful struct {
	jetstream.JetStream
	stream string
	wrong  *atomic.Int32 // how many answers are wrong
}

func (f forgetful) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == f.stream && f.wrong.Add(-1) >= 0 {
		return nil, jetstream.ErrStreamNotFound
	}
	return f.JetStream.Stream(ctx, name)
}

// A running server asks again before it takes a wrong answer for a mismatch: until
// the next question, half a minute later, it would not be ready.
func TestMomentaryWrongAnswerIsNoMismatch(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	for _, stream := range []string{"KV_A", identityStream} {
		wrong := &atomic.Int32{}
		wrong.Store(2)
		k := keep(l)
		if err := k.record(t.Context(), forgetful{js, stream, wrong}); err != nil || k.Mismatch() != nil ||
			wrong.Load() >= 0 {
			t.Errorf("two wrong answers about %s give %v, and the mismatch %v; %d are left", stream, err, k.Mismatch(),
				wrong.Load())
		}
	}
	var log bytes.Buffer
	lasting := &atomic.Int32{}
	lasting.Store(1 << 20)
	k := NewKeeper(l, KeeperOptions{Buckets: []string{"A"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	refused(t, k.record(t.Context(), forgetful{js, "KV_A", lasting}), "lacks buckets that existed: A")
	if k.Mismatch() == nil || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("an answer that stays gives the mismatch %v, and the log:\n%s", k.Mismatch(), log.String())
	}
}

// A bucket that was set aside and created again is no older state of itself, even where
// the folder is removed and the server started again within the first half minute.
func TestBucketMadeAnewIsNotOlder(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 9)
	fill(t, js, l, "B", 9)
	if err := keep(l).record(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "KV_A"); err != nil { // its folder was set aside
		t.Fatal(err)
	}
	if err := l.Forget("A"); err != nil {
		t.Fatal(err)
	}
	exempting := NewKeeper(l, KeeperOptions{Buckets: []string{"A", "B"},
		Exempt: func(bucket string) bool { return bucket == "A" }})
	if err := exempting.Guard(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	fill(t, js, nil, "A", 2)
	if err := keep(l).Guard(t.Context(), js); err != nil { // after a restart, without the exemption
		t.Errorf("the new bucket gives %v", err)
	}
	id, rev, err := readIdentity(t.Context(), js)
	if err != nil || id.Buckets["B"] != 9 {
		t.Errorf("the identity is %+v, %v", id, err)
	}
	if err := exempting.Guard(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if _, again, _ := readIdentity(t.Context(), js); again != rev {
		t.Errorf("an identity that names no such bucket was written again: revision %d, then %d", rev, again)
	}
}

// The store itself learns which revisions its servers have seen.
func TestStoreRemembersTheRevisionsReached(t *testing.T) {
	js := natstest.Start(t).JetStream()
	l := open(t, t.TempDir())
	fill(t, js, l, "A", 4)
	for range 2 {
		if err := keep(l).record(t.Context(), js); err != nil {
			t.Fatal(err)
		}
	}
	id, rev, err := readIdentity(t.Context(), js)
	if err != nil || id.Buckets["A"] != 4 || rev != 2 {
		t.Errorf("the store has %+v at revision %d, %v; want A at 4, written once", id, rev, err)
	}
	// One that was exchanged is left alone.
	other := natstest.Start(t).JetStream()
	fill(t, other, open(t, t.TempDir()), "B", 1)
	refused(t, keep(l).record(t.Context(), other), l.snapshot().ID)
	if _, rev, _ := readIdentity(t.Context(), other); rev != 1 {
		t.Errorf("a foreign store was written: revision %d", rev)
	}
}

// TestEmbeddedStoreIsMovedToNATS: a data directory with an embedded store is not used with NATS, and the refusal says
// how the store is moved there; after that both have the same identity.
func TestEmbeddedStoreIsMovedToNATS(t *testing.T) {
	r := newRecord(Embedded)
	r.ID = "A"
	for _, s := range []sight{{}, {identity: &identity{ID: "B"}}} {
		if _, m := judge(r, External, s); m == nil {
			t.Errorf("%+v is used", s)
		} else {
			refused(t, m, "the embedded store A", "restore it with --nats-url")
		}
	}
	if verdict, m := judge(r, External, sight{identity: &identity{ID: "A"}}); m != nil || verdict != join {
		t.Errorf("the store that was moved: %v, %v", verdict, m)
	}
}
