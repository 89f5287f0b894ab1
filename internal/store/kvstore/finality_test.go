package kvstore

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// reopen starts a store on a folder, until stop or the test's end.
func reopen(t testing.TB, dir string, opts Options) (s *Store, stop func()) {
	t.Helper()
	server := startEmbedded(t, dir)
	opts.Exclusive, opts.Ledger = true, server
	s = New(hostKind("HOSTS"), opts)
	stopStore := run(t, s, connect(t, server))
	return s, func() {
		stopStore()
		stopEmbedded(t, server)
	}
}

func names(s *Store) []string {
	var found []string
	s.contents.mirror.current().tree.Ascend(func(e *entry) bool {
		found = append(found, strings.TrimPrefix(e.Key, "default/"))
		return true
	})
	return found
}

// What was deleted stays deleted, whatever became of the tombstones meanwhile.
func TestDeletedObjectsStayDeletedAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := reopen(t, dir, Options{TombstoneLimit: 5, KeyDir: filepath.Join(dir, "ledger")})
	awaitReady(t, s)
	createHosts(t, s, 0, 30)
	for i := range 29 {
		remove(t, s, i)
	}
	createHosts(t, s, 3, 4) // over its tombstone
	testkit.Until(t, "the tombstones are removed", func() bool { return s.contents.keys.Deleted() == 0 })
	for _, keyDir := range []string{"", "ledger"} { // without the key log, and with it
		copied := natstest.CopyRunning(t, dir)
		again, stop := reopen(t, copied, Options{KeyDir: filepath.Join(copied, keyDir)})
		awaitReady(t, again)
		if got := fmt.Sprint(names(again)); got != "[host-000003 host-000029]" {
			t.Errorf("after the kill there are %s", got)
		}
		stop()
	}
}

// A bucket of an earlier release has tombstones that expire, and values in its
// files that nothing hides any more.
func TestBucketOfEarlierReleaseIsCleaned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	js := connect(t, server)
	old := New(hostKind("HOSTS"), Options{})
	cfg := old.bucket.streamConfig()
	cfg.Metadata, cfg.AllowMsgTTL, cfg.MaxAge = nil, true, 200*365*24*time.Hour
	stream, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, old, js)
	awaitReady(t, old)
	createHosts(t, old, 0, 10)
	for i := range 5 { // as earlier releases deleted
		msg := nats.NewMsg(old.bucket.subjectPrefix + fmt.Sprintf("default/host-%06d", i))
		msg.Header.Set(kvOperation, "DEL")
		msg.Header.Set("Nats-TTL", "1s")
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	testkit.Until(t, "the tombstones have expired", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 5
	})
	if left := storedIn(t, natstest.CopyRunning(t, dir)); left != 10 {
		t.Logf("after a kill %d objects are there; nats-server has mended what this test is about", left)
	}
	s := New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server})
	run(t, s, js)
	awaitReady(t, s)
	testkit.Until(t, "the bucket is cleaned", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && cleanedUpTo(info) > 0 && info.State.FirstSeq > cleanedUpTo(info)
	})
	if left := storedIn(t, natstest.CopyRunning(t, dir)); left != 5 {
		t.Errorf("after a kill %d objects are there, want 5", left)
	}
}

// storedIn counts the objects that a server finds in a folder.
func storedIn(t testing.TB, dir string) int64 {
	t.Helper()
	s, stop := reopen(t, dir, Options{})
	defer stop()
	awaitReady(t, s)
	return s.contents.count()
}

// Cleaning goes on under writes, at two servers, and loses and hides nothing.
func TestCleaningLosesNothing(t *testing.T) {
	t.Parallel()
	server := startEmbedded(t, t.TempDir())
	opts := Options{TombstoneLimit: 10, CleanDelay: time.Millisecond}
	var stores []*Store
	for range 2 {
		s := New(hostKind("HOSTS"), opts)
		run(t, s, connect(t, server))
		awaitReady(t, s)
		stores = append(stores, s)
	}
	createHosts(t, stores[0], 0, 40)
	stream, err := connect(t, server).Stream(t.Context(), "KV_HOSTS")
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	want := map[string]string{}
	for i := range 40 {
		if i%4 == 0 {
			remove(t, stores[1], i)
			continue
		}
		want[host(i).Name] = fmt.Sprintf("192.0.2.%d", 100+i)
		writers.Go(func() {
			for n := range 100 {
				update(t, stores[n%2], i, func(h *v1.BareMetalHost) { h.Spec.IP = fmt.Sprintf("192.0.2.%d", n+1+i) })
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for range 3 { // more tombstones than objects: the bucket is cleaned meanwhile
		for i := 1000; i < 1030; i++ {
			createHosts(t, stores[0], i, i+1)
			remove(t, stores[0], i)
		}
	}
	writers.Wait()
	testkit.Until(t, "the bucket is cleaned", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && cleanedUpTo(info) > 0
	})
	for i, s := range stores {
		var list v1.BareMetalHostList
		if err := s.GetList(context.Background(), "/baremetalhosts", storage.ListOptions{Recursive: true,
			Predicate: storage.Everything}, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != len(want) {
			t.Errorf("server %d has %d objects, want %d", i, len(list.Items), len(want))
		}
		for _, h := range list.Items {
			if h.Spec.IP != want[h.Name] {
				t.Errorf("server %d: %s has %s, want %s", i, h.Name, h.Spec.IP, want[h.Name])
			}
		}
	}
}

// One that was away while the bucket was cleaned reads it anew, and knows of what
// was deleted meanwhile.
func TestServerAwayDuringACleaningForgetsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	server := startEmbedded(t, t.TempDir())
	keyDir := t.TempDir()
	away := New(hostKind("HOSTS"), Options{KeyDir: keyDir})
	js := connect(t, server)
	stop := run(t, away, js)
	awaitReady(t, away)
	other := New(hostKind("HOSTS"), Options{TombstoneLimit: 3, CleanDelay: time.Millisecond})
	run(t, other, connect(t, server))
	awaitReady(t, other)
	createHosts(t, other, 0, 10)
	testkit.Until(t, "it has them", func() bool { return away.contents.count() == 10 })
	stop()
	for i := range 8 {
		remove(t, other, i)
	}
	testkit.Until(t, "the tombstones are removed", func() bool { return other.contents.keys.Deleted() == 0 })
	again := New(hostKind("HOSTS"), Options{KeyDir: keyDir})
	for _, s := range []*Store{away, again} { // the same process, and one that has only the key log
		run(t, s, js)
		awaitReady(t, s)
		if got := fmt.Sprint(names(s)); got != "[host-000008 host-000009]" || len(s.Lost()) > 0 {
			t.Errorf("there are %s, damaged %v", got, len(s.Lost()) > 0)
		}
	}
}
