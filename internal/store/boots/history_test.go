package boots

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "glowplug/api/v1"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

// TestHistoryHasNoBootTwice: two servers store the same boots, at the same time and one after the other.
func TestHistoryHasNoBootTwice(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	a, b := runHistory(t, js, HistoryOptions{}), runHistory(t, js, HistoryOptions{})
	a.mustAppend(t, bootsOf("g10", "one", 1, 2)...)
	b.mustAppend(t, bootsOf("g10", "one", 1, 4)...) // b has to ask
	a.mustAppend(t, bootsOf("g10", "one", 3, 5)...) // a knows boot 2 as the newest
	var both sync.WaitGroup
	for _, h := range []*History{a, b} {
		both.Go(func() {
			for n := int64(6); n < 30; n += 2 {
				// A conflict that lasts is an error: the boots may be given up then.
				_ = h.Append(t.Context(), append(bootsOf("g10", "one", n, n+1), bootsOf("g10", "two", n, n+1)...))
			}
		})
	}
	both.Wait()
	for _, host := range []string{"one", "two"} {
		names := a.all(t, "g10", host, 7)
		last := int64(100)
		for _, name := range names {
			if _, number, _ := splitName(name); number >= last {
				t.Errorf("the boots of %s: %q", host, names)
				break
			} else {
				last = number
			}
		}
		if len(names) < 20 {
			t.Errorf("the boots of %s: %q", host, names)
		}
	}
}

// TestHistoryHasNoBootOutOfOrder: a boot that comes after a later one of its host is left out.
func TestHistoryHasNoBootOutOfOrder(t *testing.T) {
	t.Parallel()
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{})
	h.mustAppend(t, boot("g10", "one", 4), boot("g10", "two", 0), boot("g10", "one", 3), boot("g10", "one", 6))
	h.mustAppend(t, boot("g10", "one", 5), boot("g10", "two", 0), boot("g10", "two", 1))
	clear(h.known)
	h.mustAppend(t, boot("g10", "one", 5), boot("g10", "one", 7))
	want := []string{"g10/one.7", "g10/two.1", "g10/one.6", "g10/two.0", "g10/one.4"}
	if got := h.all(t, "", "", 10); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHistoryPages: each page is read from the part of the stream that has it, and every boot is on one of them.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{})
	var rare, all []string
	for n := range int64(40) {
		var boots []*v1.Boot
		for i := range 100 {
			boots = append(boots, boot("g10", fmt.Sprintf("node-%d", i), n))
		}
		if n == 3 || n == 30 {
			boots = append(boots, boot("rare", "rack.node", n), boot("rare", "rack.other", n))
			rare = append(rare, fmt.Sprintf("rare/rack.node.%d", n), fmt.Sprintf("rare/rack.other.%d", n))
		}
		for _, b := range boots {
			all = append(all, b.Namespace+"/"+b.Name)
		}
		h.mustAppend(t, boots...)
	}
	// What is removed leaves gaps.
	if err := h.Purge(t.Context(), "g10", "node-7"); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "g10/node-7.") })
	slices.Reverse(rare)
	slices.Reverse(all)
	for _, limit := range []int{1000, 3000, 5000} {
		if got := h.all(t, "", "", limit); !slices.Equal(got, all) {
			t.Errorf("by pages of %d: %d boots, want %d", limit, len(got), len(all))
		}
	}
	for _, limit := range []int{1, 3, 500} {
		if got := h.all(t, "rare", "", limit); !slices.Equal(got, rare) {
			t.Errorf("by pages of %d: %q", limit, got)
		}
	}
	if got := h.all(t, "g10", "node-99", 7); len(got) != 40 || got[0] != "g10/node-99.39" || got[39] != "g10/node-99.0" {
		t.Errorf("of a host: %q", got)
	}
	if got := h.all(t, "", "rack.node", 7); len(got) != 2 {
		t.Errorf("of the hosts of a name: %q", got)
	}
}

// TestPagesWhileBootsAreRemoved: the boots of the other hosts are all there, and no page is refused.
func TestPagesWhileBootsAreRemoved(t *testing.T) {
	t.Parallel()
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{})
	h.mustAppend(t, bootsOf("g10", "kept", 0, 9)...)
	want := h.all(t, "", "", 100)
	stop := make(chan struct{})
	var removing sync.WaitGroup
	removing.Go(func() {
		for n := int64(0); ; n += 10 {
			select {
			case <-stop:
				return
			default:
			}
			h.mustAppend(t, bootsOf("gone", "node", n, n+9)...)
			if err := h.Purge(t.Context(), "gone", ""); err != nil {
				t.Error(err)
			}
		}
	})
	for range testkit.Few(40, 200) {
		got := slices.DeleteFunc(h.all(t, "", "", 100), func(name string) bool { return strings.HasPrefix(name, "gone/") })
		if !slices.Equal(got, want) {
			t.Errorf("%d boots, want %d", len(got), len(want))
		}
	}
	close(stop)
	removing.Wait()
}

// TestPageIsBounded: a page ends after maxScan messages, and the next one goes on.
func TestPageIsBounded(t *testing.T) {
	testkit.NeedsThorough(t)
	t.Parallel()
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{})
	for n := range int64(25) {
		var boots []*v1.Boot
		for i := range 1000 {
			boots = append(boots, boot("g10", fmt.Sprintf("node-%d", i), n))
		}
		h.mustAppend(t, boots...)
	}
	total, pages := 0, 0
	for next := uint64(0); pages == 0 || next > 0; pages++ {
		seen := 0
		var err error
		next, err = h.page(t.Context(), "", "", next, maxWindow, func(*v1.Boot, int) bool { seen++; return true })
		if err != nil || seen > maxScan+maxWindow {
			t.Fatalf("a page of %d boots: %v", seen, err)
		}
		total += seen
	}
	if total != 25_000 || pages < 2 {
		t.Errorf("%d boots on %d pages", total, pages)
	}
}

func TestHistoryGet(t *testing.T) {
	t.Parallel()
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{})
	h.mustAppend(t, bootsOf("g10", "one.example", 1, 30)...)
	got, err := h.Get(t.Context(), "g10", "one.example.17")
	if err != nil || got.Name != "one.example.17" || got.Number != 17 || got.UID != "uid-g10-one.example.17" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"one.example.31", "one.example", "example.17", "one.example.017", "one.example.-1", ".1"} {
		if _, err := h.Get(t.Context(), "g10", name); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHistoryLimits: the limits of an existing history are changed, and the oldest boots of a host are removed.
func TestHistoryLimits(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	runHistory(t, js, HistoryOptions{}).mustAppend(t, bootsOf("g10", "one", 1, 5)...)
	h := runHistory(t, js, HistoryOptions{Keep: Limits{Age: time.Hour, Bytes: 1 << 20, PerHost: 2}})
	h.mustAppend(t, boot("g10", "one", 6))
	if got := h.all(t, "g10", "one", 10); !slices.Equal(got, []string{"g10/one.6", "g10/one.5"}) {
		t.Errorf("%q", got)
	}
	info, err := h.info(t.Context())
	if err != nil || info.Config.MaxAge != time.Hour || info.Config.MaxBytes != 1<<20 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestMissingHistoryIsMadeAgain: nothing depends on the history, so a lost one is no reason to stop.
func TestMissingHistoryIsMadeAgain(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	logger, lines := logstest.Logger()
	h := runHistory(t, js, HistoryOptions{Logger: logger})
	h.mustAppend(t, boot("g10", "one", 1))
	if err := js.DeleteStream(t.Context(), HistoryStream); err != nil {
		t.Fatal(err)
	}
	if err := h.Append(t.Context(), bootsOf("g10", "one", 2, 3)); err == nil {
		t.Error("boots are stored without a stream")
	}
	testkit.Until(t, "boots are stored again", func() bool { return h.Append(t.Context(), bootsOf("g10", "one", 4, 4)) == nil })
	if got := h.all(t, "", "", 10); !slices.Equal(got, []string{"g10/one.4"}) {
		t.Errorf("%q", got)
	}
	if got := lines(); strings.Count(got, "level=ERROR") != 1 {
		t.Error(got)
	}
}

// TestFullDiskDropsHistoryFirst: boots are given up with one warning until there is room again.
func TestFullDiskDropsHistoryFirst(t *testing.T) {
	t.Parallel()
	logger, lines := logstest.Logger()
	full := errors.New("the disk is full")
	h := runHistory(t, kvtest.JetStream(t), HistoryOptions{Logger: logger, Room: func(int) error { return full }})
	for n := range int64(3) {
		if err := h.Append(t.Context(), bootsOf("g10", "one", n, n+1)); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	}
	if got := testutil.ToFloat64(h.dropped); got != 6 || strings.Count(lines(), "level=WARN") != 1 {
		t.Errorf("%v are dropped:\n%s", got, lines())
	}
	full = nil
	h.mustAppend(t, boot("g10", "one", 5))
	full = errors.New("it is full again")
	_ = h.Append(t.Context(), bootsOf("g10", "one", 6, 6))
	if strings.Count(lines(), "level=WARN") != 2 {
		t.Error(lines())
	}
}

// TestHistoryIsEncrypted: the messages have no boot in plain text, and each is bound to its place.
func TestHistoryIsEncrypted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [boots]\n" +
		"  providers: [{aesgcm: {keys: [{name: a, secret: QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=}]}}]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Load(t.Context(), file, "test")
	if err != nil {
		t.Fatal(err)
	}
	js := kvtest.JetStream(t)
	logger, lines := logstest.Logger()
	h := runHistory(t, js, HistoryOptions{Cipher: keys.Of(schema.GroupResource{Resource: "boots"}), Logger: logger})
	h.mustAppend(t, boot("g10", "one", 1))
	_, stream, _ := h.use()
	msg, err := stream.GetLastMsgForSubject(t.Context(), subject("g10", "one"))
	if err != nil || bytes.Contains(msg.Data, []byte("worker")) || encryption.Key(msg.Data) == "" {
		t.Errorf("%q, %v", msg.Data, err)
	}
	if got, err := h.Get(t.Context(), "g10", "one.1"); err != nil || got.Name != "one.1" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := js.Publish(t.Context(), subject("g10", "two"), msg.Data); err != nil {
		t.Fatal(err)
	}
	if got := h.all(t, "", "", 10); !slices.Equal(got, []string{"g10/one.1"}) || !strings.Contains(lines(), "cannot be read") {
		t.Errorf("%q\n%s", got, lines())
	}
}

// TestHistoryAway: without NATS nothing waits for the history.
func TestHistoryAway(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	h := runHistory(t, js, HistoryOptions{})
	js.Conn().Close()
	testkit.Until(t, "the loss is noticed", func() bool { _, _, err := h.use(); return err != nil })
	began := time.Now()
	if err := h.Append(t.Context(), bootsOf("g10", "one", 1, 1)); err == nil || time.Since(began) > time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
