package config

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// external is a NATS server that is not embedded.
type external struct {
	t       testing.TB
	server  *server.Server
	options server.Options
	conn    *nats.Conn
}

// newExternal starts a server, until the test ends, that takes messages of at most
// maxPayload bytes.
func newExternal(t testing.TB, maxPayload int32) *external {
	t.Helper()
	e := &external{t: t, options: server.Options{
		ServerName: "external", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: maxPayload,
	}}
	options := e.options
	var err error
	if e.server, err = server.NewServer(&options); err != nil {
		t.Fatal(err)
	}
	e.server.Start()
	t.Cleanup(func() { e.server.Shutdown(); e.server.WaitForShutdown() })
	if !e.server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	e.options.Port = options.Port
	if e.conn, err = nats.Connect(e.server.ClientURL(), nats.MaxReconnects(-1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.conn.Close)
	return e
}

// jetStream is that of the server.
func (e *external) jetStream() jetstream.JetStream {
	e.t.Helper()
	js, err := jetstream.New(e.conn)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(js.CleanupPublisher)
	return js
}

// setMaxPayload gives the server another configuration. Clients learn of it when they
// connect again.
func (e *external) setMaxPayload(maxPayload int32) {
	e.t.Helper()
	options := e.options
	options.MaxPayload = maxPayload
	if err := e.server.ReloadOptions(&options); err != nil {
		e.t.Fatal(err)
	}
}
