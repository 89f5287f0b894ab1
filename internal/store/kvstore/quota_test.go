package kvstore

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// A stranger fills the quota of the account to its last byte. Objects are read and
// deleted all the same, and the ballast is filled again once the stranger has gone.
func TestFullQuotaStillAllowsDeletes(t *testing.T) {
	for name, nodes := range map[string]int{"one server": 1, "a cluster": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const quota = 64 << 20
			servers := []*natstest.Server{}
			if nodes == 1 {
				servers = append(servers, natstest.Start(t))
			} else {
				servers = natstest.Cluster(t, nodes)
			}
			for _, server := range servers {
				server.SetQuota(quota)
			}
			js := servers[0].JetStream(servers[1:]...)
			account := natsd.NewQuota(js, 0, nodes)
			ballast := natsd.NewBallast(natsd.BallastOptions{
				Quota: account, Replicas: nodes, Guard: func(context.Context, jetstream.JetStream) error { return nil },
			})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); ballast.Run(ctx, js) }()
			t.Cleanup(func() { cancel(); <-done })
			s := New(hostKind("HOSTS"), Options{Room: account.Room, Release: ballast.Release, Replicas: nodes})
			run(t, s, js)
			awaitReady(t, s)
			createHosts(t, s, 0, 100)
			isWhole := func() bool {
				stream, err := js.Stream(ctx, natsd.BallastStream)
				return err == nil && stream.CachedInfo().State.Bytes >= 1<<20
			}
			testkit.Until(t, "the ballast is there", isWhole)

			stranger(t, js, nodes, quota-8<<20)
			if nodes > 1 {
				time.Sleep(2 * time.Second) // until all servers know what all have
			}
			fillQuota(t, js, nodes, 4<<10)
			err := s.Create(ctx, hostKey(1000), host(1000), nil, 0)
			if !isFull(err) {
				t.Fatalf("a create gives %v, want 507", err)
			}
			for i := range 100 {
				get(t, s, i)
				err := s.Delete(ctx, hostKey(i), &v1.BareMetalHost{}, nil, storage.ValidateAllObjectFunc, nil,
					storage.DeleteOptions{})
				if err != nil {
					t.Fatalf("delete %d of 100: %v", i, err)
				}
				if i%50 == 0 || nodes == 1 {
					fillQuota(t, js, nodes, 1<<10)
				}
			}
			if err := js.DeleteStream(ctx, "STRANGER"); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "the ballast is filled again", isWhole)
			testkit.Until(t, "objects are taken again", func() bool {
				return s.Create(ctx, hostKey(1000), host(1000), nil, 0) == nil
			})
		})
	}
}

// stranger makes a stream that is not glowplug's, of so many bytes on all nodes.
func stranger(t testing.TB, js jetstream.JetStream, nodes, bytes int) {
	t.Helper()
	_, err := js.CreateStream(context.Background(), jetstream.StreamConfig{
		Name: "STRANGER", Subjects: []string{"stranger"}, Replicas: nodes,
	})
	for size := 256 << 10; bytes > 0 && err == nil; bytes -= size * nodes {
		_, err = js.Publish(context.Background(), "stranger", make([]byte, size))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fillQuota writes messages of a stranger until none, however small, has room. In a
// cluster it waits after each: the servers tell each other only now and then what
// they have stored, and until then a stranger may store more than the quota.
func fillQuota(t testing.TB, js jetstream.JetStream, nodes, size int) {
	t.Helper()
	for ; size >= 1; size /= 4 {
		for {
			_, err := js.Publish(context.Background(), "stranger", make([]byte, size))
			if isFull(err) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(nodes-1) * 5 * time.Millisecond)
		}
	}
}
