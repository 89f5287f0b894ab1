// Package kvtest runs stores for tests, on a real NATS server in the test's process.
package kvtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/natsd"
)

// patience is how long a test waits for a server to stop, or a store to be ready.
const patience = 10 * time.Second

// JetStream is that of a server with a folder of its own, until the test ends.
func JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.CleanupPublisher)
	return js
}

// Store follows a bucket: a kvstore.Store.
type Store interface {
	Run(context.Context, jetstream.JetStream, ...kvstore.Observer)
	ReadinessCheck() error
}

// Run lets stores follow their buckets until the test ends. They are ready when it
// returns.
func Run(t testing.TB, js jetstream.JetStream, stores ...Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for _, store := range stores {
		running.Go(func() { store.Run(ctx, js) })
	}
	deadline := time.Now().Add(patience)
	for _, store := range stores {
		for store.ReadinessCheck() != nil {
			if time.Now().After(deadline) {
				t.Fatalf("the store is not ready: %v", store.ReadinessCheck())
			}
			time.Sleep(time.Millisecond)
		}
	}
}
