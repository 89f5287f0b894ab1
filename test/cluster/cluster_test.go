package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// cluster is three NATS servers and two of glowplug on them.
type cluster struct {
	t       *testing.T
	dir     string
	net     *network
	nats    []*natsNode
	servers []*server
	buckets []string
	history *history
	seed    uint64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	needs(t)
	dir, err := os.MkdirTemp("", "glowplug-cluster-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs, data and histories are in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	c := &cluster{t: t, dir: dir, net: newNetwork(t), history: newHistory(), seed: number("TEST_CLUSTER_SEED",
		rand.Uint64()>>32)}
	t.Logf("TEST_CLUSTER_SEED=%d", c.seed)
	var nodes []node
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes = append(nodes, c.net.addNode(name))
	}
	c.startNATS(nodes)
	for _, name := range []string{"g1", "g2"} {
		c.servers = append(c.servers, c.startServer(c.net.addNode(name)))
	}
	c.replicate()
	return c
}

// number reads a variable of the environment.
func number(variable string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

type fault struct {
	name string
	// lasts is long enough for another leader to be elected (4 to 9 s), where one can be.
	lasts time.Duration
	begin func(c *cluster) (end func())
}

// faults is what happens to the cluster, one at a time. begin returns what ends it.
var faults = []fault{
	{"kill -9 of the leader", 6 * time.Second, func(c *cluster) func() {
		n := c.leader()
		n.kill()
		return n.start
	}},
	{"pause of the leader", 10 * time.Second, func(c *cluster) func() {
		n := c.leader()
		n.pause()
		return n.resume
	}},
	{"partition of the leader", 10 * time.Second, func(c *cluster) func() {
		c.net.partition(c.leader().at)
		return c.net.heal
	}},
	{"partition of the leader with one server", 10 * time.Second, func(c *cluster) func() {
		c.net.partition(c.leadAt(c.servers[0]).at, c.servers[0].at)
		return c.net.heal
	}},
	{"kill -9 of all three", 5 * time.Second, func(c *cluster) func() {
		for _, n := range c.nats {
			n.kill()
		}
		return func() {
			for _, n := range c.nats {
				n.start()
			}
		}
	}},
	{"partition of one server from all", 5 * time.Second, func(c *cluster) func() {
		c.net.partition(c.servers[0].at)
		return c.net.heal
	}},
}

// TestCluster: whatever happens to the leader, reads and writes through either
// server are linearizable or refused; nothing acknowledged is lost, nothing deleted
// comes back, nothing applied is refused; watches go on, and machines boot.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	c.prepare()
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	var watchers []*watcher
	var machines []*machine
	for _, s := range c.servers {
		_, config, err := s.ask(ctx, http.MethodGet, bootPath, "")
		if err != nil || !strings.Contains(config, bootContent) {
			t.Fatalf("the config of the machine: %s %v", config, err)
		}
		w, m := &watcher{server: s, values: map[string]bool{}}, &machine{server: s, want: config}
		if err := w.list(ctx); err != nil {
			t.Fatal(err)
		}
		watchers, machines = append(watchers, w), append(machines, m)
		background.Go(func() { w.follow(ctx) })
		background.Go(func() { m.boot(ctx) })
	}
	for pass := range int(number("TEST_CLUSTER_PASSES", 2)) {
		for i, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				c.round(t, pass*len(faults)+i, f)
			})
		}
	}
	c.compare(watchers)
	stop()
	background.Wait()
	t.Log(c.history.summary())
	c.history.refused(t, watchers)
	c.history.check(t, c.dir)
	for i, s := range c.servers {
		for _, fault := range watchers[i].faults {
			t.Errorf("%s: %s", s.at.name, fault)
		}
		for _, fault := range machines[i].faults {
			t.Errorf("a machine at %s: %s", s.at.name, fault)
		}
		t.Logf("%s: %d boots, the slowest answer took %s", s.at.name, machines[i].answers,
			machines[i].slowest.Round(time.Millisecond))
		log, _ := os.ReadFile(s.log)
		if n := strings.Count(string(log), "the bucket was made anew"); n > 0 {
			t.Errorf("%s took its own bucket for another %d times", s.at.name, n)
		}
	}
}

// prepare makes what machines boot, and the namespace of the clients' objects.
func (c *cluster) prepare() {
	c.t.Helper()
	for path, body := range map[string]string{
		objects: `{"metadata":{"name":"first"}}`,
		"/api/v1/namespaces/" + kubeNamespace + "/baremetalhosts":  bootObjects,
		"/api/v1/namespaces/" + kubeNamespace + "/ignitionconfigs": bootConfig,
	} {
		status, text, err := c.servers[0].ask(c.t.Context(), http.MethodPost, path, body)
		if err != nil || status != http.StatusCreated {
			c.t.Fatalf("%s: %d %s %v", path, status, text, err)
		}
	}
	for _, s := range c.servers {
		testkit.Within(c.t, 10*time.Second, s.at.name+" serves the machine", func() bool {
			status, text, err := s.ask(c.t.Context(), http.MethodGet, bootPath, "")
			return err == nil && status == http.StatusOK && strings.Contains(text, bootContent)
		})
	}
}

// recoveryTime is how long a server may take, after NATS is whole again, until it is
// ready and writes: 2 s, and one try of the test, whose write may wait for its end.
const recoveryTime = 3 * time.Second

// round lets clients work while a fault begins and ends, and measures how long the
// servers need after it.
func (c *cluster) round(t *testing.T, number int, f fault) {
	c.spread()
	random := rand.New(rand.NewPCG(c.seed, uint64(number)))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait := c.runClients(ctx, fmt.Sprintf("round%d", number+1), random.Uint64())
	defer wait()
	defer stop()
	time.Sleep(time.Second)
	end := f.begin(c)
	time.Sleep(f.lasts + time.Duration(random.Int64N(int64(time.Second))))
	end()
	c.recovery(t)
	time.Sleep(time.Second)
}

// recovery measures the time from the end of a fault until NATS is whole, and until
// both servers are ready and write.
func (c *cluster) recovery(t *testing.T) {
	began := time.Now()
	var nats time.Duration
	took := make([]time.Duration, len(c.servers))
	var group sync.WaitGroup
	group.Go(func() {
		testkit.Within(c.t, 30*time.Second, "NATS is whole", c.whole)
		nats = time.Since(began)
	})
	for i, s := range c.servers {
		group.Go(func() {
			testkit.Within(c.t, 30*time.Second, s.at.name+" is ready and writes", func() bool {
				return s.ready() && s.writes()
			})
			took[i] = time.Since(began)
		})
	}
	group.Wait()
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	t.Logf("after the end of the fault: NATS is whole after %s, %s writes after %s, %s after %s", round(nats),
		c.servers[0].at.name, round(took[0]), c.servers[1].at.name, round(took[1]))
	for i, s := range c.servers {
		if took[i] > nats+recoveryTime {
			t.Errorf("%s is ready and writes %s after NATS is whole: want at most %s", s.at.name, round(took[i]-nats),
				recoveryTime)
		}
	}
}

// writes reports whether a write succeeds within half a second.
func (s *server) writes() bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), 500*time.Millisecond)
	defer cancel()
	status, _, err := s.ask(ctx, http.MethodPut, objects+"/first",
		fmt.Sprintf(`{"metadata":{"name":"first"},"data":{"t":%q}}`, time.Now()))
	return err == nil && status == http.StatusOK
}

// compare reads every object through both servers and through one that begins with
// what NATS holds, as further calls of the history, and holds the watches against it.
func (c *cluster) compare(watchers []*watcher) {
	c.t.Helper()
	third := c.startServer(c.net.addNode("g3"))
	names := map[string]bool{}
	for _, o := range c.history.operations {
		names[o.Input.(call).object] = true
	}
	for _, s := range append(c.servers, third) {
		for name := range names {
			op := call{operation: read, object: name, server: s.at.name}
			from := c.history.now()
			a, text := s.call(c.t.Context(), op)
			if text != "" || a.outcome == unknown {
				c.t.Errorf("%s of %s at the end: %s %s", op.operation, name, a.outcome, text)
				continue
			}
			c.history.add(clients, from, op, a)
		}
	}
	want, _, err := third.list(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(time.Second) // for the last events
	for _, w := range watchers {
		if diff := w.differs(want); diff != "" {
			c.t.Errorf("the watch at %s has a gap: %s", w.server.at.name, diff)
		}
		if listed, _, err := w.server.list(c.t.Context()); err != nil || !maps.Equal(listed, want) {
			c.t.Errorf("%s lists %v %v, and %s %v", w.server.at.name, listed, err, third.at.name, want)
		}
	}
}
