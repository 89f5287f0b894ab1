package kvstore

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/store/replicas"
	"glowplug/internal/testkit"
)

// keepReplicas does so until the test ends.
func keepReplicas(t testing.TB, s *Store, js jetstream.JetStream) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.KeepReplicas(ctx, js)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func streamInfo(t testing.TB, js jetstream.JetStream, bucket string) *jetstream.StreamInfo {
	t.Helper()
	stream, err := js.Stream(context.Background(), "KV_"+bucket)
	if err != nil {
		t.Logf("stream info: %v", err)
		return &jetstream.StreamInfo{}
	}
	return stream.CachedInfo()
}

// A cluster of three holds three copies, and a bucket with one copy gets two more:
// it keeps its objects and is never away. Then a node dies, whichever it is, and
// writes go on.
func TestBucketOfOneReplicaIsRaisedAndSurvivesANode(t *testing.T) {
	t.Parallel()
	nodes := natstest.Cluster(t, 3)
	js := nodes[0].JetStream(nodes[1:]...)
	old := New(hostKind("HOSTS"), Options{Replicas: 1})
	stop := run(t, old, js)
	awaitReady(t, old)
	createHosts(t, old, 0, 50)
	stop()
	if n := streamInfo(t, js, "HOSTS").Config.Replicas; n != 1 {
		t.Fatalf("the bucket has %d replicas to begin with, want 1", n)
	}

	logger, lines := logstest.Logger()
	s := New(hostKind("HOSTS"), Options{Logger: logger})
	run(t, s, js)
	keepReplicas(t, s, js)
	awaitReady(t, s)
	testkit.Until(t, "three servers have the newest state", func() bool {
		info := streamInfo(t, js, "HOSTS")
		return info.Config.Replicas == 3 && replicas.Current(info) == 3
	})
	testkit.Until(t, "the metrics say so", func() bool { return s.contents.metrics.replicas.Load() == 3 })
	if got := s.contents.count(); got != 50 {
		t.Errorf("%d objects after the bucket was raised, want 50", got)
	}
	if !strings.Contains(lines(), "the bucket has more replicas from now on") || strings.Contains(lines(),
		"fewer replicas") {
		t.Errorf("the log:\n%s", lines())
	}
	createHosts(t, s, 50, 60)

	leader := streamInfo(t, js, "HOSTS").Cluster.Leader
	for _, n := range nodes {
		if n.Name() == leader {
			n.Stop()
		}
	}
	testkit.Until(t, "writes go on", func() bool {
		h := host(60)
		return s.Create(context.Background(), hostKey(60), h, nil, 0) == nil
	})
	testkit.Until(t, "a new reader finds all", func() bool {
		reader := New(hostKind("HOSTS"), Options{})
		stop := run(t, reader, js)
		defer stop()
		awaitReady(t, reader)
		return reader.contents.count() == 61
	})
}

// A new bucket has three copies at once.
func TestNewBucketInAClusterHasThreeReplicas(t *testing.T) {
	t.Parallel()
	nodes := natstest.Cluster(t, 3)
	js := nodes[0].JetStream(nodes[1:]...)
	for asked, want := range map[int]int{0: 3, 1: 1, 3: 3} {
		bucket := "HOSTS" + string(rune('A'+asked))
		s := New(hostKind(bucket), Options{Replicas: asked})
		run(t, s, js)
		awaitReady(t, s)
		if n := streamInfo(t, js, bucket).Config.Replicas; n != want {
			t.Errorf("asked for %d: the bucket has %d replicas, want %d", asked, n, want)
		}
	}
}

// A single server cannot hold what was asked for: that is said, and it works.
func TestTooFewServersForTheReplicasIsAWarning(t *testing.T) {
	js := natstest.Start(t).JetStream()
	for name, c := range map[string]struct {
		asked int
		warns bool
	}{"by default": {0, false}, "one": {1, false}, "three": {3, true}} {
		t.Run(name, func(t *testing.T) {
			logger, lines := logstest.Logger()
			s := New(hostKind("HOSTS"), Options{Replicas: c.asked, Logger: logger})
			run(t, s, js)
			keepReplicas(t, s, js)
			awaitReady(t, s)
			testkit.Until(t, "the replicas are counted", func() bool { return s.contents.metrics.replicas.Load() == 1 })
			if c.warns {
				testkit.Until(t, "it warns", func() bool { return strings.Contains(lines(), "fewer replicas than it should") })
			} else if strings.Contains(lines(), "fewer replicas") {
				t.Errorf("the log:\n%s", lines())
			}
		})
	}
}
