package natsd

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestServerWithSmallMessagesIsRefused: a server that takes less than the largest object
// is told from one that takes it, with the remedy, and seen again when it has changed.
func TestServerWithSmallMessagesIsRefused(t *testing.T) {
	options := server.Options{ServerName: "small", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		MaxPayload: MaxPayload - 1}
	used := options
	s, err := server.NewServer(&used)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	nc, err := Dial(s.ClientURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	await := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, CheckPayload(nc))
			}
		}
	}
	await("it is refused", func() bool { return CheckPayload(nc) != nil })
	for _, want := range []string{"16777215", "16777216", "set max_payload: 16MB"} {
		if message := CheckPayload(nc).Error(); !strings.Contains(message, want) {
			t.Errorf("%q does not say %q", message, want)
		}
	}
	options.Port, options.MaxPayload = used.Port, MaxPayload
	if err := s.ReloadOptions(&options); err != nil {
		t.Fatal(err)
	}
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	await("it is taken", func() bool { return nc.IsConnected() && CheckPayload(nc) == nil })
}

// TestEmbeddedServerTakesTheLargestMessage: it never refuses itself.
func TestEmbeddedServerTakesTheLargestMessage(t *testing.T) {
	s := start(t, t.TempDir())
	defer stop(t, s)
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPayload(nc); err != nil {
		t.Error(err)
	}
}
