package bootlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// cluster answers as servers of a cluster do that are behind, or that say nothing.
type cluster struct {
	jetstream.JetStream
	// said changes the answers about the stream.
	said func(*jetstream.StreamInfo)
	// behind is how many consumers live on a server that has only the messages of a
	// subject; lost is how many questions of each kind have no answer.
	behind  atomic.Int32
	subject string
	streams atomic.Int32
	feeds   atomic.Int32
}

type answer struct {
	jetstream.Stream
	info *jetstream.StreamInfo
}

func (a answer) CachedInfo() *jetstream.StreamInfo { return a.info }

func (c *cluster) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if c.streams.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	stream, err := c.JetStream.Stream(ctx, name)
	if err != nil || c.said == nil {
		return stream, err
	}
	info := *stream.CachedInfo()
	c.said(&info)
	return answer{stream, &info}, nil
}

func (c *cluster) CreateConsumer(
	ctx context.Context, stream string, cfg jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	if c.feeds.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if c.behind.Add(-1) >= 0 {
		cfg.FilterSubject = c.subject
	}
	return c.JetStream.CreateConsumer(ctx, stream, cfg)
}

// filled is a server whose log has two messages, each of another writer; subject is
// that of the first.
func filled(t *testing.T) (js jetstream.JetStream, subject string) {
	js = kvtest.JetStream(t)
	a, b := run(t, js, Options{}).ready(t), run(t, js, Options{}).ready(t)
	a.append(t, record("a", v1.StateBooting, 0))
	b.append(t, record("b", v1.StateBooting, 0))
	return js, a.subject
}

// TestDeposedLeaderIsNotBelieved: a server that was the leader names itself, and what
// it says is old. Nothing counts as read because of that.
func TestDeposedLeaderIsNotBelieved(t *testing.T) {
	js, _ := filled(t)
	var elected atomic.Bool
	l := run(t, &cluster{JetStream: js, said: func(info *jetstream.StreamInfo) {
		if elected.Load() {
			return
		}
		silent := &jetstream.PeerInfo{Active: time.Minute}
		info.Cluster = &jetstream.ClusterInfo{Name: "test", Leader: "a", Replicas: []*jetstream.PeerInfo{silent, silent}}
		info.State = jetstream.StreamState{}
	}}, Options{})
	testkit.Until(t, "the answer is refused", func() bool { return errors.Is(l.ReadinessCheck(), errNoLeader) || l.Loaded() })
	if l.Loaded() {
		t.Fatal("the log counts as read")
	}
	elected.Store(true)
	if got := l.ready(t).taken(); len(got) != 2 {
		t.Errorf("read: %q", got)
	}
}

// TestConsumerThatIsBehindIsNotTheEnd: a consumer on a server that is behind says that
// nothing is left. The next ones are asked before the log counts as read.
func TestConsumerThatIsBehindIsNotTheEnd(t *testing.T) {
	js, subject := filled(t)
	c := &cluster{JetStream: js, subject: subject}
	c.behind.Store(2)
	l := run(t, c, Options{})
	testkit.Until(t, "the log is read", l.Loaded)
	if got := l.taken(); len(got) != 2 {
		t.Errorf("the log counts as read with %q", got)
	}
}

// TestLostQuestionIsAskedAgain: a question without an answer, since there was no
// leader, costs half a second and not all the time that an answer may take.
func TestLostQuestionIsAskedAgain(t *testing.T) {
	js, _ := filled(t)
	c := &cluster{JetStream: js}
	c.streams.Store(1)
	c.feeds.Store(1)
	began := time.Now()
	run(t, c, Options{}).ready(t)
	if took := time.Since(began); took >= callTimeout {
		t.Errorf("the log is read after %v", took)
	}
}

// TestOlderAnswerIsDoubted: one answer that is older than what was read is no loss,
// while one that stays is.
func TestOlderAnswerIsDoubted(t *testing.T) {
	for name, c := range map[string]struct {
		answers int32
		refused bool
	}{"for a moment": {2, false}, "for good": {1 << 30, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, _ := filled(t)
			opts := Options{KeyDir: t.TempDir()}
			run(t, js, opts).ready(t).stop()
			var older atomic.Int32
			older.Store(c.answers)
			logger, lines := logstest.Logger()
			opts.Logger = logger
			l := run(t, &cluster{JetStream: js, said: func(info *jetstream.StreamInfo) {
				if older.Add(-1) >= 0 {
					info.State.LastSeq--
				}
			}}, opts)
			testkit.Until(t, "the answer is judged", func() bool {
				// The line of the log follows the state.
				return l.Loaded() || errors.Is(l.ReadinessCheck(), errReplaced) && strings.Contains(lines(), "level=ERROR")
			})
			if l.Loaded() == c.refused || strings.Contains(lines(), "level=ERROR") != c.refused {
				t.Errorf("loaded %v, after:\n%s", l.Loaded(), lines())
			}
		})
	}
}

// TestTrimmedByAnotherServerIsNoLoss: what another server has trimmed while this one
// was away is not missing.
func TestTrimmedByAnotherServerIsNoLoss(t *testing.T) {
	js, _ := filled(t)
	logger, lines := logstest.Logger()
	opts := Options{KeyDir: t.TempDir(), Logger: logger}
	run(t, js, opts).ready(t).stop()
	other := run(t, js, Options{}).ready(t)
	if err := other.Trim(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	run(t, js, opts).ready(t)
	if strings.Contains(lines(), "level=ERROR") {
		t.Error(lines())
	}
}

// TestServerOfAClusterDies: a log with three copies goes on, and a server that starts
// meanwhile reads all of it.
func TestServerOfAClusterDies(t *testing.T) {
	nodes := natstest.Cluster(t, 3)
	js := nodes[0].JetStream(nodes[1:]...)
	logger, lines := logstest.Logger()
	opts := Options{Replicas: 3, KeyDir: t.TempDir(), Logger: logger}
	a := run(t, js, opts)
	testkit.Within(t, time.Minute, "the log is ready", func() bool { return a.ReadinessCheck() == nil })
	// A new stream of three servers can elect another leader once more.
	testkit.Within(t, time.Minute, "the first records are written", func() bool {
		return a.Append(t.Context(), []Record{record("a", v1.StateBooting, 0), record("b", v1.StateBooting, 0)}) == nil
	})
	stream, err := js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	leader := stream.CachedInfo().Cluster.Leader
	for _, n := range nodes {
		if n.Name() == leader {
			n.Stop()
		}
	}
	testkit.Within(t, time.Minute, "a record is written", func() bool {
		return a.Append(t.Context(), []Record{record("c", v1.StateBooting, 0)}) == nil
	})
	a.stop()
	b := run(t, js, opts)
	testkit.Within(t, time.Minute, "the log is read", b.Loaded)
	if got := fmt.Sprint(b.taken()); !strings.Contains(got, "a Booting at 1 b Booting at 1 c Booting at") {
		t.Errorf("read: %s", got)
	}
	if strings.Contains(lines(), "level=ERROR") {
		t.Error(lines())
	}
}
