// Package natstest runs NATS servers with JetStream for tests, in the test's
// process: one alone, or a cluster. They listen on loopback and can be stopped,
// emptied and started again.
package natstest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long a test waits for servers to start, or to elect a leader.
const patience = 30 * time.Second

// maxPayload is that of the embedded server.
const maxPayload = 16 << 20

// Server is one NATS server. Its folder and its ports stay when it is restarted.
type Server struct {
	t       testing.TB
	opts    *server.Options
	running *server.Server
}

// Start runs a server of its own until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := newServer(t, "alone")
	s.Restart()
	return s
}

func newServer(t testing.TB, name string) *Server {
	s := &Server{t: t, opts: &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: maxPayload, JetStreamMaxStore: 1 << 40,
	}}
	t.Cleanup(s.Stop)
	return s
}

// Cluster runs n servers that form one cluster, until the test ends. It returns
// once they have a leader and all of them can hold a stream.
func Cluster(t testing.TB, n int) []*Server {
	t.Helper()
	servers, routes := make([]*Server, n), make([]*url.URL, n)
	for i := range servers {
		servers[i] = newServer(t, fmt.Sprintf("node-%d", i+1))
		port := FreePort(t)
		servers[i].opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
		routes[i] = &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	for _, s := range servers { // a server alone waits for the others
		s.opts.Routes = routes
		s.launch()
	}
	await(t, "the cluster has a leader that knows all servers", func() bool {
		for _, s := range servers {
			if s.running.JetStreamIsLeader() && len(s.running.JetStreamClusterPeers()) == n {
				return true
			}
		}
		return false
	})
	return servers
}

// launch starts the server and remembers the port that it was given.
func (s *Server) launch() {
	s.t.Helper()
	opts := s.opts.Clone()
	running, err := server.NewServer(opts)
	if err != nil {
		s.t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(patience) {
		s.t.Fatal("the NATS server does not start")
	}
	s.running = running
	if s.opts.Port == -1 {
		s.opts.Port = running.Addr().(*net.TCPAddr).Port
	}
}

// Restart starts the server again, on the port that it had.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.launch()
}

// Stop stops the server. Its folder stays.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}

// SetQuota bounds what the account of all connections may store, in bytes.
func (s *Server) SetQuota(bytes int64) {
	s.t.Helper()
	account, err := s.running.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	if err == nil {
		limits := map[string]server.JetStreamAccountLimits{"": {
			MaxMemory: -1, MaxStore: bytes, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
			MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
		}}
		err = account.UpdateJetStreamLimits(limits)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Name is the server's name, by which a cluster knows it.
func (s *Server) Name() string { return s.opts.ServerName }

// Use gives a stopped server another folder.
func (s *Server) Use(dir string) { s.opts.StoreDir = dir }

// Copy puts a copy of a stopped server's folder into a folder of the test's.
func (s *Server) Copy() string {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.opts.StoreDir)); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// CopyRunning puts a copy of a running server's folder into a folder of the test's:
// what a kill -9 at this moment would leave. The server removes purged blocks in the
// background, so a copy that misses a file is made again.
func CopyRunning(t testing.TB, dir string) string {
	t.Helper()
	for tries := 1; ; tries++ {
		copied := t.TempDir()
		err := os.CopyFS(copied, os.DirFS(dir))
		if err == nil {
			return copied
		}
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			t.Fatal(err)
		}
	}
}

// URL is where clients reach the server.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.opts.Port) }

// JetStream connects to a server, or to the next of others where it is away, until
// the test ends. The connection survives a restart.
func (s *Server) JetStream(others ...*Server) jetstream.JetStream {
	s.t.Helper()
	urls := []string{s.URL()}
	for _, other := range others {
		urls = append(urls, other.URL())
	}
	return JetStream(s.t, urls...)
}

// JetStream connects to the first server that answers, until the test ends.
func JetStream(t testing.TB, urls ...string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.IgnoreDiscoveredServers(),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.CleanupPublisher)
	return js
}

// taken are the ports of tests that run: the server of a test may not listen yet, or be stopped for a moment.
var taken sync.Map

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, and which no other test of this
// process has. It is below 32768, where Linux begins to take the local ports of outgoing connections,
// so that no connection of another test has the port before the server of this one listens.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(22_000)
		if _, isTaken := taken.LoadOrStore(port, true); isTaken {
			continue
		}
		t.Cleanup(func() { taken.Delete(port) })
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port was found on 127.0.0.1")
	return 0
}

func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
