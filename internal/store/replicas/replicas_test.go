package replicas

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd/natstest"
)

func stream(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, FirstSeq: 2}
}

func TestOneServerHoldsOneReplica(t *testing.T) {
	js := natstest.Start(t).JetStream()
	made, err := Create(t.Context(), js, stream("A"), Default)
	if err != nil {
		t.Fatal(err)
	}
	info := made.CachedInfo()
	if info.Config.Replicas != 1 || Clustered(info) || Current(info) != 1 {
		t.Errorf("replicas %d, clustered %v, current %d; want 1, false, 1", info.Config.Replicas, Clustered(info),
			Current(info))
	}
	if n, err := Raise(t.Context(), js, info, Default); n != 1 || err != nil {
		t.Errorf("raising gives %d, %v; want 1", n, err)
	}
}

func TestClusterOfThreeHoldsThreeReplicas(t *testing.T) {
	t.Parallel()
	cluster := natstest.Cluster(t, 3)
	js := cluster[0].JetStream(cluster[1:]...)
	ctx := t.Context()
	for asked, want := range map[int]int{0: 3, 1: 1, 2: 2, 3: 3, 5: 3} {
		made, err := Create(ctx, js, stream(fmt.Sprint("ASKED", asked)), Wanted(asked))
		if err != nil {
			t.Fatalf("asked for %d: %v", asked, err)
		}
		if got := made.CachedInfo().Config.Replicas; got != want {
			t.Errorf("asked for %d: the stream has %d, want %d", asked, got, want)
		}
	}
	// A stream that is there already, with other settings, is taken as it is.
	again, err := Create(ctx, js, stream("ASKED1"), 3)
	if err != nil || again.CachedInfo().Config.Replicas != 1 {
		t.Errorf("making a stream twice gives %v", err)
	}
	// It is raised, and never lowered.
	info, err := again.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Raise(ctx, js, info, 3); n != 3 || err != nil {
		t.Errorf("raising to 3 gives %d, %v", n, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for Current(info) != 3 && time.Now().Before(deadline) {
		if next, err := again.Info(ctx); err == nil {
			info = next
		}
		time.Sleep(20 * time.Millisecond)
	}
	if info.Config.Replicas != 3 || Current(info) != 3 {
		t.Errorf("the raised stream has %d replicas, %d of them current; want 3", info.Config.Replicas, Current(info))
	}
	if n, err := Raise(ctx, js, info, 1); n != 3 || err != nil {
		t.Errorf("asking for fewer gives %d, %v; want 3", n, err)
	}
}

// TestLed: an answer counts while the server that gave it follows a leader, and a
// majority follows that one.
func TestLed(t *testing.T) {
	heard, silent, gone := &jetstream.PeerInfo{Active: time.Second}, &jetstream.PeerInfo{Active: time.Minute},
		&jetstream.PeerInfo{Offline: true}
	for name, c := range map[string]struct {
		leader string
		peers  []*jetstream.PeerInfo
		want   bool
	}{
		"no leader":                     {"", []*jetstream.PeerInfo{heard, heard}, false},
		"all follow":                    {"a", []*jetstream.PeerInfo{heard, heard}, true},
		"a majority follows":            {"a", []*jetstream.PeerInfo{heard, silent}, true},
		"deposed, and names itself":     {"a", []*jetstream.PeerInfo{silent, silent}, false},
		"deposed, and knows of the end": {"a", []*jetstream.PeerInfo{gone, silent}, false},
		"half of two is no majority":    {"a", []*jetstream.PeerInfo{silent}, false},
		"one copy":                      {"a", nil, true},
	} {
		if got := Led(&jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Leader: c.leader,
			Replicas: c.peers}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !Led(&jetstream.StreamInfo{}) {
		t.Error("a server that is no cluster needs no leader")
	}
}
