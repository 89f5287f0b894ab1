package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glowplug/internal/testkit"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsNode is one NATS server of the cluster.
type natsNode struct {
	process
	conn *nats.Conn // the test's own
	js   jetstream.JetStream
}

func (c *cluster) startNATS(nodes []node) {
	var routes []string
	for _, n := range nodes {
		routes = append(routes, fmt.Sprintf("nats://%s:6222", n.data))
	}
	for _, n := range nodes {
		dir := filepath.Join(c.dir, n.name)
		config := filepath.Join(c.dir, n.name+".conf")
		// It must not tell its direct address: that is no way around a partition.
		text := fmt.Sprintf(`
server_name: %s
listen: 0.0.0.0:4222
client_advertise: %s:4222
http: 0.0.0.0:8222
max_payload: 16MB
jetstream { store_dir: %q, sync_interval: always }
cluster { name: test, listen: %s:6222, routes: [%s] }
`, n.name, n.data, dir, n.data, strings.Join(routes, ", "))
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
		s := &natsNode{process: process{t: c.t, at: n, log: filepath.Join(c.dir, n.name+".log"), argv: []string{natsServer,
			"-c", config}}}
		s.start()
		s.connect(c)
		c.nats = append(c.nats, s)
	}
}

// connect keeps a connection to this one server, and no other.
func (n *natsNode) connect(c *cluster) {
	c.t.Helper()
	nc, err := nats.Connect(fmt.Sprintf("nats://%s:4222", n.at.direct), nats.SetCustomDialer(natsDialer{c.net}),
		nats.IgnoreDiscoveredServers(),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectBufSize(-1))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	n.conn = nc
	if _, err := nc.Subscribe(pingSubject(n), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		c.t.Fatal(err)
	}
	if n.js, err = jetstream.New(nc); err != nil {
		c.t.Fatal(err)
	}
}

// serves reports whether a client at this address is connected to the server.
func (n *natsNode) serves(c *cluster, address string) bool {
	client := http.Client{Transport: &http.Transport{DialContext: c.net.dial, DisableKeepAlives: true},
		Timeout: 2 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://%s:8222/connz", n.at.direct))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var list struct {
		Connections []struct {
			IP string `json:"ip"`
		} `json:"connections"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return false
	}
	for _, conn := range list.Connections {
		if conn.IP == address {
			return true
		}
	}
	return false
}

// natsDialer dials from the hub for the library.
type natsDialer struct{ network *network }

func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return d.network.dial(ctx, network, address)
}

// info returns what a leader says about a bucket, nil if none answers.
func (c *cluster) info(bucket string) *jetstream.StreamInfo {
	for _, n := range c.nats {
		if !n.conn.IsConnected() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 500*time.Millisecond)
		stream, err := n.js.Stream(ctx, bucket)
		cancel()
		if err == nil && stream.CachedInfo().Cluster != nil && stream.CachedInfo().Cluster.Leader != "" {
			return stream.CachedInfo()
		}
	}
	return nil
}

// whole reports whether every bucket has a leader that hears from all its replicas, and
// all servers reach each other.
func (c *cluster) whole() bool {
	return c.routed() && !slices.ContainsFunc(c.buckets, func(b string) bool {
		info := c.info(b)
		return info == nil || !healthy(info)
	})
}

// routed reports whether a message passes from every server to every other. What the
// servers tell of their replicas does not show that: they have several connections to
// each other, and each waits for its own TCP timer after a partition.
func (c *cluster) routed() bool {
	for _, from := range c.nats {
		for _, to := range c.nats {
			if _, err := from.conn.Request(pingSubject(to), nil, 200*time.Millisecond); err != nil {
				return false
			}
		}
	}
	return true
}

// pingSubject is the subject on which the test answers at this one server.
func pingSubject(n *natsNode) string { return "ping." + n.at.name }

func healthy(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return false
	}
	return !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool {
		return !p.Current || p.Offline || p.Active > 3*time.Second
	})
}

// replicate puts every bucket on all three servers, where they are not yet.
func (c *cluster) replicate() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	names := c.nats[0].js.StreamNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, "KV_") {
			c.buckets = append(c.buckets, name)
		}
	}
	if names.Err() != nil || !slices.Contains(c.buckets, bucket) {
		c.t.Fatalf("the buckets are %v: %v", c.buckets, names.Err())
	}
	for _, name := range c.buckets {
		testkit.Within(c.t, 20*time.Second, name+" is on three servers", func() bool {
			info := c.info(name)
			if info == nil || info.Config.Replicas == len(c.nats) {
				return info != nil && healthy(info)
			}
			info.Config.Replicas = len(c.nats)
			if _, err := c.nats[0].js.UpdateStream(ctx, info.Config); err != nil {
				c.t.Logf("%s: %v", name, err)
			}
			return false
		})
	}
}

// leader returns the server that leads the bucket under test.
func (c *cluster) leader() *natsNode {
	c.t.Helper()
	var leader *natsNode
	testkit.Within(c.t, 30*time.Second, "every bucket has a leader and its replicas", func() bool {
		if !c.whole() {
			return false
		}
		info := c.info(bucket)
		for _, n := range c.nats {
			if info != nil && n.at.name == info.Cluster.Leader {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// home returns the NATS server that this server of glowplug is connected to, nil if
// none says so.
func (c *cluster) home(s *server) *natsNode {
	for _, n := range c.nats {
		if n.serves(c, s.at.data) {
			return n
		}
	}
	return nil
}

// spread sees that the two servers are connected to different NATS servers: a fault
// of one is then seen from both sides. Where the kernel cannot end a connection from
// outside, it is left to chance.
func (c *cluster) spread() {
	c.t.Helper()
	one, two := c.servers[0], c.servers[1]
	for range 20 {
		shared := c.home(one)
		if shared != nil && c.home(two) != nil && c.home(two) != shared {
			return
		}
		if shared != nil {
			_ = exec.Command("ip", "netns", "exec", two.at.namespace, "ss", "-K", "dst", shared.at.data, "dport", "=",
				"4222").Run()
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.t.Logf("%s and %s are connected to one NATS server", one.at.name, two.at.name)
}

// leadAt makes the NATS server that this server of glowplug is connected to the
// bucket's leader.
func (c *cluster) leadAt(s *server) *natsNode {
	c.t.Helper()
	var leader *natsNode
	testkit.Within(c.t, 30*time.Second, "the server's own NATS server leads the bucket", func() bool {
		leader = c.leader()
		home := c.home(s)
		if home == nil || home == leader {
			return home != nil
		}
		request := fmt.Sprintf(`{"placement":{"preferred":%q}}`, home.at.name)
		_, _ = leader.conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+bucket, []byte(request), time.Second)
		time.Sleep(500 * time.Millisecond)
		return false
	})
	return leader
}
