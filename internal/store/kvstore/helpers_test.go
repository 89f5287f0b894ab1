package kvstore

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

// The test binary plays other parts, too: a server in a process of its own, and
// writers to be killed.
const roleVariable = "GLOWPLUG_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "server":
		runServer()
	case "writer":
		runWriter(hostKind("HOSTS"), createHostsAlways)
	case "batches":
		runWriter(batchKind(), raiseHostsAlways)
	default:
		goleak.VerifyTestMain(m,
			// The library's feature gates and queues start these once a process.
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		)
	}
}

// runServer is an external NATS server, alone or with routes to those of its cluster, of which the first one is its
// own: it prints its URL and lives until its standard input ends.
func runServer() {
	opts := &server.Options{
		ServerName: "external", Host: "127.0.0.1", Port: portFromEnv(), NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: os.Getenv("GLOWPLUG_TEST_DIR"), MaxPayload: natsd.MaxPayload,
	}
	if routes := os.Getenv("GLOWPLUG_TEST_ROUTES"); routes != "" {
		opts.Routes, opts.SyncAlways = server.RoutesFromStr(routes), true
		port, _ := strconv.Atoi(opts.Routes[0].Port())
		opts.ServerName = opts.Routes[0].Port()
		opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server does not start")
	}
	os.Stdout.WriteString(s.ClientURL() + "\n")
	io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
}

// role starts the test binary in another part. It ends when stdin is closed.
func role(t testing.TB, name string, env ...string) (cmd *exec.Cmd, stdin io.Closer, stdout *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, roleVariable+"="+name)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("the %s says nothing: %v", name, err)
	}
	return cmd, in, bytes.NewBuffer(line[:n])
}

// externalServer runs a NATS server in another process.
type externalServer struct {
	t      testing.TB
	dir    string
	url    string
	routes string // of a cluster

	cmd  *exec.Cmd
	stop io.Closer
}

func startExternal(t testing.TB) *externalServer {
	t.Helper()
	s := &externalServer{t: t, dir: t.TempDir()}
	s.start("0")
	t.Cleanup(s.shutdown)
	return s
}

func (s *externalServer) start(port string) {
	s.t.Helper()
	var out *bytes.Buffer
	s.cmd, s.stop, out = role(s.t, "server", "GLOWPLUG_TEST_DIR="+s.dir, "GLOWPLUG_TEST_PORT="+port,
		"GLOWPLUG_TEST_ROUTES="+s.routes)
	s.url = strings.TrimSpace(out.String())
}

// name is the server's in a cluster.
func (s *externalServer) name() string {
	return strings.SplitN(s.routes, ",", 2)[0][len("nats-route://127.0.0.1:"):]
}

// kill ends the server at once, as kill -9 does.
func (s *externalServer) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// restart brings the server back on the port it had.
func (s *externalServer) restart() {
	s.t.Helper()
	s.start(s.url[strings.LastIndexByte(s.url, ':')+1:])
}

func (s *externalServer) shutdown() {
	s.stop.Close()
	s.cmd.Wait()
}

func (s *externalServer) dial() *nats.Conn {
	s.t.Helper()
	nc, err := natsd.Dial(s.url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// startEmbedded runs a server in this process.
func startEmbedded(t testing.TB, dir string) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopEmbedded(t, s) })
	return s
}

func stopEmbedded(t testing.TB, s *natsd.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func connect(t testing.TB, s *natsd.Server) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return newJetStream(t, nc)
}

func newJetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.CleanupPublisher)
	return js
}

// run follows the bucket until the test ends, or stop is called.
func run(t testing.TB, s *Store, js jetstream.JetStream) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, js)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func awaitReady(t testing.TB, s *Store) {
	t.Helper()
	testkit.Until(t, "the store is ready", func() bool { return s.connection.ReadinessCheck() == nil })
}

// bump moves a bucket's revision on without an object: it deletes nothing.
func bump(ctx context.Context, t testing.TB, js jetstream.JetStream, bucket string) uint64 {
	t.Helper()
	msg := nats.NewMsg("$KV." + bucket + ".bump")
	msg.Header.Set(kvOperation, "DEL")
	ack, err := js.PublishMsg(ctx, msg)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}
