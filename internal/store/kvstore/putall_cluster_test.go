package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/store/replicas"
	"glowplug/internal/testkit"
)

// counted is the number in a host's note, 0 without a host.
func counted(value []byte) int {
	h := &v1.BareMetalHost{}
	if value == nil {
		return 0
	}
	if err := json.Unmarshal(value, h); err != nil {
		return -1
	}
	n, _ := strconv.Atoi(h.Annotations["note"])
	return n
}

// rising is an observer of hosts whose numbers must not go back.
type rising struct {
	t    testing.TB
	mu   sync.Mutex
	last map[string]int
}

func (r *rising) Load(items []Item) {
	for _, item := range items {
		r.see(item, 0)
	}
}
func (r *rising) Put(item Item)             { r.see(item, 1) }
func (r *rising) Delete(k string, _ uint64) { r.t.Errorf("%s was deleted", k) }

func (r *rising) see(item Item, step int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := counted(item.Value)
	if r.last == nil {
		r.last = map[string]int{}
	}
	if n < r.last[item.Key]+step {
		r.t.Errorf("%s goes from %d to %d at revision %d", item.Key, r.last[item.Key], n, item.Revision)
	}
	r.last[item.Key] = n
}

// raised are puts that raise the numbers of hosts by 1, from what a store has of them.
func raised(s *Store, hosts ...int) []Put {
	all := puts(s, "", hosts...)
	for n, i := range hosts {
		number := 1
		all[n].Expect = 0
		if e := s.contents.mirror.get(batchKey(i)); e != nil {
			number, all[n].Expect = counted(e.Value)+1, e.Revision
		}
		all[n].Object.(*v1.BareMetalHost).Annotations["note"] = strconv.Itoa(number)
	}
	return all
}

// sums counts batches by key: those that were acknowledged, and those that may be in the bucket.
type sums struct {
	mu             sync.Mutex
	acked, unknown map[int]int
	batches        atomic.Int64 // acknowledged
	doubtful       atomic.Int64
}

func (c *sums) add(to map[int]int, hosts []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range hosts {
		to[i]++
	}
}

// write raises some hosts at a time, chosen at random, until ctx ends.
func (c *sums) write(ctx context.Context, t testing.TB, s *Store, hosts, size int) {
	for ctx.Err() == nil {
		some := rand.Perm(hosts)[:size]
		_, err := s.PutAll(context.Background(), raised(s, some...))
		conflict := &ConflictError{}
		switch {
		case err == nil:
			c.add(c.acked, some)
			c.batches.Add(1)
		case errors.As(err, &conflict):
			for _, key := range conflict.Keys {
				if !slices.ContainsFunc(some, func(i int) bool { return batchKey(i) == key }) {
					t.Errorf("a conflict names %s, which is not in the batch", key)
				}
			}
		case statusCode(err) == 503: // nothing was begun
			time.Sleep(20 * time.Millisecond)
		case statusCode(err) == 504:
			c.add(c.unknown, some)
			c.doubtful.Add(1)
		default:
			t.Errorf("a batch: %v", err)
		}
	}
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// check compares what a new reader finds with the batches.
func (c *sums) check(t testing.TB, js jetstream.JetStream, hosts int) (reader *Store) {
	t.Helper()
	reader = New(batchKind(), Options{})
	run(t, reader, js)
	testkit.Until(t, "the bucket is read", reader.connection.Loaded)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range hosts {
		var n int
		if e := reader.contents.mirror.get(batchKey(i)); e != nil {
			n = counted(e.Value)
		}
		if n < c.acked[i] || n > c.acked[i]+c.unknown[i] {
			t.Errorf("host %d was raised %d times; %d batches were acknowledged and %d may have been written", i, n,
				c.acked[i], c.unknown[i])
		}
	}
	t.Logf("%d batches were acknowledged, and the outcome of %d is unknown", c.batches.Load(), c.doubtful.Load())
	return reader
}

// more waits until so many more batches were acknowledged.
func (c *sums) more(t testing.TB, n int64) {
	t.Helper()
	want := c.batches.Load() + n
	testkit.Until(t, "batches are acknowledged", func() bool { return c.batches.Load() >= want || t.Failed() })
}

// background runs a function until the test, or what is returned, ends it.
func background(t testing.TB, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); do(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// stepDown makes the leader of the bucket another server's.
func stepDown(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	testkit.Until(t, "the leader steps down", func() bool {
		answer, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_HOSTS", nil, time.Second)
		return err == nil && strings.Contains(string(answer.Data), `"success":true`)
	})
}

// Two stores raise the numbers of the same hosts with compare-and-set, while the bucket's leader moves: no number
// is lost, given twice, or goes back.
func TestBatchesOfTwoWriters(t *testing.T) {
	t.Parallel()
	const hosts, size = 24, 4
	nodes := natstest.Cluster(t, 3)
	count := &sums{acked: map[int]int{}, unknown: map[int]int{}}
	var stops []func()
	for n := range 2 {
		s := New(batchKind(), Options{Replicas: 3}, &rising{t: t})
		run(t, s, nodes[n].JetStream(nodes...))
		testkit.Until(t, "the store is ready", func() bool { return s.connection.ReadinessCheck() == nil })
		stops = append(stops, background(t, func(ctx context.Context) { count.write(ctx, t, s, hosts, size) }))
	}
	js := nodes[2].JetStream()
	for range testkit.Few(3, 20) {
		count.more(t, 30)
		stepDown(t, js)
	}
	count.more(t, 30)
	for _, stop := range stops {
		stop()
	}
	count.check(t, js, hosts)
}

// startProcesses runs a cluster of three servers, each in a process of its own, whose bucket has three copies.
func startProcesses(t testing.TB) (servers []*externalServer, js jetstream.JetStream) {
	t.Helper()
	var routes, urls []string
	for range 3 {
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", natstest.FreePort(t)))
	}
	for n := range routes {
		s := &externalServer{t: t, dir: t.TempDir(), routes: strings.Join(slices.Concat(routes[n:], routes[:n]), ",")}
		s.start(strconv.Itoa(natstest.FreePort(t)))
		t.Cleanup(s.shutdown)
		servers, urls = append(servers, s), append(urls, s.url)
	}
	js = natstest.JetStream(t, urls...)
	cfg := StreamConfig(batchKind())
	cfg.Replicas = 3
	testkit.Until(t, "the cluster has the bucket", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateStream(ctx, cfg)
		return err == nil
	})
	return servers, js
}

// Servers are killed under batches, the leader and others: every acknowledged batch is there, and none in part.
func TestBatchesOutliveAServer(t *testing.T) {
	t.Parallel()
	const hosts = 200
	servers, js := startProcesses(t)
	s := New(batchKind(), Options{Replicas: 3}, &rising{t: t})
	run(t, s, js)
	testkit.Until(t, "the store is ready", func() bool { return s.connection.ReadinessCheck() == nil })
	count := &sums{acked: map[int]int{}, unknown: map[int]int{}}
	stop := background(t, func(ctx context.Context) { count.write(ctx, t, s, hosts, hosts) })
	for round := range testkit.Few(2, 15) {
		count.more(t, 10)
		victim := servers[round%len(servers)]
		for _, server := range servers {
			isLeader := streamInfo(t, js, "HOSTS").Cluster.Leader == server.name()
			if round%2 == 0 && isLeader {
				victim = server
			}
		}
		victim.kill()
		count.more(t, 10)
		victim.restart()
		testkit.Until(t, "the server has the newest state", func() bool {
			return replicas.Current(streamInfo(t, js, "HOSTS")) == 3
		})
		if round == 0 {
			stepDown(t, js)
		}
	}
	count.more(t, 10)
	stop()
	if found := spread(count.check(t, js, hosts), hosts); len(found) != 1 {
		t.Errorf("a batch is there in part: hosts have these numbers: %v", found)
	}
}

// liar is a deposed leader: it refuses a batch by what it knew before, while the new leader stores it.
type liar struct {
	jetstream.JetStream
	refusal atomic.Pointer[jetstream.APIError]
	stores  bool
}

func (l *liar) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	refusal := l.refusal.Load()
	if msg.Header.Get("Nats-Batch-Commit") == "" || refusal == nil {
		return l.JetStream.PublishMsg(ctx, msg, opts...)
	}
	if l.stores {
		if _, err := l.JetStream.PublishMsg(ctx, msg, opts...); err != nil {
			return nil, err
		}
	}
	return nil, refusal
}

// What a server of a cluster refuses may be in the bucket all the same: the messages tell.
func TestRefusedBatchThatIsInTheBucketCounts(t *testing.T) {
	t.Parallel()
	nodes := natstest.Cluster(t, 3)
	for name, refusal := range map[string]*jetstream.APIError{
		"a conflict": {Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence,
			Description: "wrong last sequence: 1"},
		"another refusal": {Code: 400, ErrorCode: 10176, Description: "atomic publish batch is incomplete"},
	} {
		for _, stores := range []bool{true, false} {
			js := &liar{JetStream: nodes[0].JetStream(nodes...), stores: stores}
			s := New(batchKind(), Options{Replicas: 3})
			stop := run(t, s, js)
			awaitReady(t, s)
			note := fmt.Sprint(name, stores)
			js.refusal.Store(refusal)
			_, err := s.PutAll(t.Context(), puts(s, note, 1, 2, 3))
			switch {
			case stores && err != nil:
				t.Errorf("%s of a batch that is in the bucket: %v", name, err)
			case !stores && statusCode(err) != 503:
				t.Errorf("%s of a batch that is not in the bucket: %v, want a 503", name, err)
			case stores != (noteOf(t, s, 3) == note):
				t.Errorf("%s, stored %v: the note is %q", name, stores, noteOf(t, s, 3))
			}
			stop()
		}
	}
}
