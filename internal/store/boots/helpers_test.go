package boots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/testkit"
)

// epoch is the time at which boot 0 of each host began. The others begin a minute after each other.
var epoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// boot returns a boot of about the usual size.
func boot(namespace, host string, number int64) *v1.Boot {
	begun := metav1.NewMicroTime(epoch.Add(time.Duration(number) * time.Minute))
	ended := metav1.NewMicroTime(begun.Add(50 * time.Second))
	name := fmt.Sprintf("%s.%d", host, number)
	b := &v1.Boot{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("uid-" + namespace + "-" + name),
			CreationTimestamp: metav1.NewTime(begun.Time),
		},
		Host: host, HostUID: types.UID("uid-" + host), Number: number, Outcome: v1.OutcomeProvisioned, Begun: &begun,
		Ended: &ended, Client: "192.0.2.1", UserAgent: "Ignition/2.19.0",
		Facts: &v1.BootFacts{FoundBy: "mac", Claimed: map[string]string{"mac": "52:54:00:00:00:01", "begun": "x"}},
		Match: &v1.BootMatch{Tier: "mac", Reason: "its selector has the hardware address of the host"},
		Config: &v1.BootConfig{Name: namespace + "/worker", Generation: 3, Version: "3.4.0",
			Hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		Image:           &v1.BootImage{Name: namespace + "/coreos", Release: "41.20241215.3.0"},
		KernelArguments: "ignition.firstboot ignition.platform.id=metal",
		Machine:         v1.MachineState{State: v1.StateProvisioned, BootCount: number},
	}
	for i, step := range []string{v1.StepScript, v1.StepKernel, v1.StepInitrd, v1.StepConfig, v1.StepBootComplete} {
		at := metav1.NewMicroTime(begun.Add(time.Duration(i) * 10 * time.Second))
		b.Steps = append(b.Steps, v1.BootStep{Name: step, Time: at})
	}
	if number%10 == 9 {
		b.Outcome = v1.OutcomeFailed
	}
	return b
}

// boots returns those of a host from one number to another.
func bootsOf(namespace, host string, from, to int64) (boots []*v1.Boot) {
	for number := from; number <= to; number++ {
		boots = append(boots, boot(namespace, host, number))
	}
	return boots
}

// runHistory runs a history until the test ends. It is open when it returns.
func runHistory(t testing.TB, js jetstream.JetStream, opts HistoryOptions) *History {
	t.Helper()
	h := NewHistory(opts)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx, js) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	testkit.Until(t, "the history is open", func() bool { _, _, err := h.use(); return err == nil })
	return h
}

func (h *History) mustAppend(t testing.TB, boots ...*v1.Boot) {
	t.Helper()
	if err := h.Append(t.Context(), boots); err != nil {
		t.Fatal(err)
	}
}

// all returns the names of all boots of a history, the newest first, read by pages of some length.
func (h *History) all(t testing.TB, namespace, host string, limit int) (names []string) {
	t.Helper()
	for before := uint64(0); ; {
		n := 0
		next, err := h.page(t.Context(), namespace, host, before, limit, func(b *v1.Boot, _ int) bool {
			names, n = append(names, b.Namespace+"/"+b.Name), n+1
			return n < limit
		})
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 {
			return names
		}
		before = next
	}
}

// lab is a bucket with a history.
type lab struct {
	*Storage
	js jetstream.JetStream
}

func newLab(t testing.TB, opts kvstore.Options) *lab {
	t.Helper()
	js := kvtest.JetStream(t)
	opts.Exclusive = true
	bucket := kvstore.New(objects.Stored(kinds.Of(kinds.Boots)), opts)
	kvtest.Run(t, js, bucket)
	return &lab{NewStorage(bucket, runHistory(t, js, HistoryOptions{})), js}
}

// begin makes a boot the newest one of its host, as the server does: the one before it comes into the history first.
func (l *lab) begin(t testing.TB, b *v1.Boot) {
	t.Helper()
	host, _, _ := splitName(b.Name)
	view, err := kvstore.ViewOf(t.Context(), l.bucket, "")
	if err != nil {
		t.Fatal(err)
	}
	put := kvstore.Put{Key: b.Namespace + "/" + host, Object: b.DeepCopy()}
	if item, ok := view.Get(put.Key); ok {
		put.Expect = item.Revision
		former := &v1.Boot{}
		if err := view.Decode(item, former); err != nil {
			t.Fatal(err)
		}
		if former.Name != b.Name {
			l.history.mustAppend(t, former)
		}
	}
	_, err = l.bucket.PutAll(t.Context(), []kvstore.Put{put})
	if conflict := new(kvstore.ConflictError); errors.As(err, &conflict) { // the key was deleted before
		put.Expect = conflict.Revisions[0]
		_, err = l.bucket.PutAll(t.Context(), []kvstore.Put{put})
	}
	if err != nil {
		t.Fatal(err)
	}
}
