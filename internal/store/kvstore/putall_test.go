package kvstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/batch"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// batchKind is a kind whose objects are written in batches.
func batchKind() Kind {
	kind := hostKind("HOSTS")
	kind.Batched = true
	return kind
}

// batchKey is the bucket key of a host.
func batchKey(i int) string { return fmt.Sprintf("default/host-%06d", i) }

// puts writes hosts, each with a note, over the revisions that a store has of them.
func puts(s *Store, note string, hosts ...int) []Put {
	all := make([]Put, len(hosts))
	for n, i := range hosts {
		h := host(i)
		h.Annotations["note"] = note
		all[n] = Put{Key: batchKey(i), Object: h, Expect: s.contents.keys.Get(batchKey(i)).Revision}
	}
	return all
}

func numbers(from, to int) []int {
	all := []int{}
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

func putAll(t testing.TB, s *Store, all []Put) uint64 {
	t.Helper()
	last, err := s.PutAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// startBatches runs a store of an embedded server.
func startBatches(t testing.TB, kind Kind, opts Options, observers ...Observer) *Store {
	t.Helper()
	s := New(kind, opts, observers...)
	run(t, s, connect(t, startEmbedded(t, t.TempDir())))
	awaitReady(t, s)
	return s
}

// wantConflict checks that a batch was refused because of some keys.
func wantConflict(t *testing.T, err error, keys ...int) *ConflictError {
	t.Helper()
	conflict := &ConflictError{}
	if !errors.As(err, &conflict) {
		t.Fatalf("%v, want a conflict", err)
	}
	want := []string{}
	for _, i := range keys {
		want = append(want, batchKey(i))
	}
	if diff := cmp.Diff(want, conflict.Keys); diff != "" {
		t.Error(diff)
	}
	return conflict
}

func TestABatchIsWrittenWhollyOrNotAtAll(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprintf("exclusive=%v", exclusive), func(t *testing.T) {
			s := startBatches(t, batchKind(), Options{Exclusive: exclusive})
			putAll(t, s, puts(s, "first", numbers(0, 10)...))
			stale := puts(s, "third", numbers(0, 12)...)
			putAll(t, s, puts(s, "second", 4))
			removed := puts(s, "", 7)
			removed[0].Object = nil
			gone := putAll(t, s, removed)
			before := s.contents.mirror.revision()
			_, err := s.PutAll(t.Context(), stale)
			conflict := wantConflict(t, err, 4, 7)
			if conflict.Revisions[1] != gone {
				t.Errorf("the deleted key has revision %d, want that of the tombstone, %d", conflict.Revisions[1], gone)
			}
			for i := range 12 {
				want := map[bool]string{true: "first", false: ""}[i < 10]
				switch i {
				case 4:
					want = "second"
				case 7:
					want = ""
				}
				if got := noteOf(t, s, i); got != want {
					t.Errorf("host %d has the note %q, want %q", i, got, want)
				}
			}
			if now := s.contents.mirror.revision(); now != before {
				t.Errorf("the bucket went from revision %d to %d", before, now)
			}
			for n, key := range conflict.Keys {
				i := slices.IndexFunc(stale, func(p Put) bool { return p.Key == key })
				stale[i].Expect = conflict.Revisions[n]
			}
			last := putAll(t, s, stale)
			for n, put := range stale {
				e := s.contents.mirror.get(put.Key)
				if want := last - uint64(len(stale)-1-n); e == nil || e.Revision != want {
					t.Errorf("%s: %+v, want revision %d", put.Key, e, want)
				}
			}
		})
	}
}

// noteOf is the note of a host in the bucket, "" if it is not there.
func noteOf(t testing.TB, s *Store, i int) string {
	t.Helper()
	h := &v1.BareMetalHost{}
	if err := s.Get(context.Background(), hostKey(i), storage.GetOptions{IgnoreNotFound: true}, h); err != nil {
		t.Fatal(err)
	}
	return h.Annotations["note"]
}

// Batches that cannot be written are refused, and leave nothing behind.
func TestBatchesThatCannotBe(t *testing.T) {
	s := startBatches(t, batchKind(), Options{Exclusive: true})
	large := puts(s, "", 1, 2, 3)
	large[1].Object.(*v1.BareMetalHost).Annotations["large"] = strings.Repeat("x", 17<<20)
	isMistake := func(err error) bool { return err != nil && statusCode(err) == 0 }
	for name, c := range map[string]struct {
		puts []Put
		is   func(error) bool
	}{
		"none":           {nil, isMistake},
		"too many":       {puts(s, "", numbers(0, batch.Max+1)...), isMistake},
		"one key twice":  {puts(s, "", 1, 2, 1), isMistake},
		"a large object": {large, apierrors.IsRequestEntityTooLargeError},
	} {
		if _, err := s.PutAll(t.Context(), c.puts); !c.is(err) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	if got := s.contents.mirror.revision(); got != 1 {
		t.Errorf("the bucket is at revision %d", got)
	}
}

// A batch that the quota has no room for is refused before it begins: a server alone would store a part of it.
func TestBatchOverTheQuotaIsNotBegun(t *testing.T) {
	server := natstest.Start(t)
	server.SetQuota(8 << 20)
	js := server.JetStream()
	s := New(batchKind(), Options{Room: natsd.NewQuota(js, 0, 1).Room})
	run(t, s, js)
	awaitReady(t, s)
	before := s.contents.mirror.revision()
	for _, size := range []int{5 << 10, 3300} { // with the headers of a thousand messages, the second is too large as well
		_, err := s.PutAll(t.Context(), puts(s, strings.Repeat("x", size), numbers(0, batch.Max)...))
		if !isFull(err) {
			t.Errorf("values of %d bytes: %v, want a 507", size, err)
		}
	}
	if now := s.contents.mirror.revision(); now != before {
		t.Errorf("the bucket went from revision %d to %d", before, now)
	}
	putAll(t, s, puts(s, "small", numbers(0, 10)...))
}

// Where others keep all places for batches of the stream, nothing is written and the writer comes again.
func TestTooManyBatchesAtOnceIsA503(t *testing.T) {
	js := connect(t, startEmbedded(t, t.TempDir()))
	s := New(batchKind(), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	for i := range 50 {
		msg := nats.NewMsg("$KV.HOSTS." + batchKey(i))
		msg.Header.Set("Nats-Batch-Id", fmt.Sprint(i))
		msg.Header.Set("Nats-Batch-Sequence", "1")
		if err := js.Conn().PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PutAll(t.Context(), puts(s, "", 1, 2)); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, want a 503", err)
	}
	putAll(t, s, puts(s, "", 1)) // one write takes no place
}

// A stream of an earlier release, which takes no batches, is changed.
func TestOldBucketTakesBatches(t *testing.T) {
	js := connect(t, startEmbedded(t, t.TempDir()))
	old := New(hostKind("HOSTS"), Options{Exclusive: true})
	stop := run(t, old, js)
	awaitReady(t, old)
	createHosts(t, old, 0, 3)
	if _, err := old.PutAll(t.Context(), puts(old, "", 0, 1)); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a bucket without batches: %v, want a 503", err)
	}
	stop()
	s := New(batchKind(), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	putAll(t, s, puts(s, "new", 0, 1, 2))
	if got := noteOf(t, s, 2); got != "new" {
		t.Errorf("the note is %q", got)
	}
}

// Mirror, observers and watches see each change of a batch once, in its order.
func TestBatchesAreObservedInOrder(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprintf("exclusive=%v", exclusive), func(t *testing.T) {
			r := &record{}
			s := startBatches(t, batchKind(), Options{Exclusive: exclusive}, r)
			w := watchFrom(t, s, currentRV(t, s))
			all := puts(s, "first", 3, 1, 2)
			if got := putAll(t, s, all); got != s.contents.mirror.revision() {
				t.Errorf("the batch is at revision %d, and the mirror at %d", got, s.contents.mirror.revision())
			}
			next := puts(s, "second", 2, 3, 9)
			next[1].Object = nil
			putAll(t, s, next)
			want := []string{"load 0", "put " + batchKey(3), "put " + batchKey(1), "put " + batchKey(2),
				"put " + batchKey(2), "delete " + batchKey(3), "put " + batchKey(9)}
			if diff := cmp.Diff(want, r.take()); diff != "" {
				t.Error(diff)
			}
			for _, want := range []string{"ADDED host-000003", "ADDED host-000001", "ADDED host-000002",
				"MODIFIED host-000002", "DELETED host-000003", "ADDED host-000009"} {
				if got := nextEvent(t, w); got != want {
					t.Errorf("the watch gives %s, want %s", got, want)
				}
			}
		})
	}
}

// Batches of an exclusive store at once are applied once each.
func TestBatchesAtOnce(t *testing.T) {
	r := &record{}
	s := startBatches(t, batchKind(), Options{Exclusive: true}, r)
	err := parallel(60, func(i int) error {
		if i%3 == 0 {
			return s.Create(context.Background(), hostKey(1000*i), host(1000*i), nil, 0)
		}
		_, err := s.PutAll(context.Background(), puts(s, "", numbers(1000*i, 1000*i+50)...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if count, changes := s.contents.count(), len(r.take()); count != 20+40*50 || changes != 1+20+40*50 {
		t.Errorf("%d objects, %d changes", count, changes)
	}
}

// Each object of a key is added to a watch, and its predecessor is not deleted.
func TestSuccessiveObjectsAreAdded(t *testing.T) {
	kind := batchKind()
	kind.Successive = true
	r := &record{}
	s := startBatches(t, kind, Options{Exclusive: true}, r)
	rev := currentRV(t, s)
	all := watchFrom(t, s, rev)
	successor := func(number int, ip string) {
		put := puts(s, "", 1)
		h := put[0].Object.(*v1.BareMetalHost)
		h.Name, h.UID, h.Spec.IP = fmt.Sprintf("host-1.%d", number), types.UID(fmt.Sprint("boot ", number)), ip
		putAll(t, s, put)
	}
	selected, err := s.Watch(context.Background(), "/baremetalhosts", storage.ListOptions{
		ResourceVersion: rev, Recursive: true, Predicate: storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.OneTermEqualSelector("ip", "192.0.2.1"),
			GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) {
				return nil, fields.Set{"ip": obj.(*v1.BareMetalHost).Spec.IP}, nil
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(selected.Stop)
	successor(1, "192.0.2.1")
	successor(2, "192.0.2.1")
	successor(3, "192.0.2.9") // matches no more: no event for those who select
	successor(4, "192.0.2.9")
	successor(4, "192.0.2.1") // the same object, which begins to match
	successor(4, "192.0.2.9")
	remove := puts(s, "", 1)
	remove[0].Object = nil
	putAll(t, s, remove)
	for _, want := range []string{"ADDED host-1.1", "ADDED host-1.2", "ADDED host-1.3", "ADDED host-1.4",
		"MODIFIED host-1.4", "MODIFIED host-1.4", "DELETED host-1.4"} {
		if got := nextEvent(t, all); got != want {
			t.Errorf("the watch of all gives %s, want %s", got, want)
		}
	}
	successor(5, "192.0.2.1")
	for _, want := range []string{"ADDED host-1.1", "ADDED host-1.2", "ADDED host-1.4", "DELETED host-1.4",
		"ADDED host-1.5"} {
		if got := nextEvent(t, selected); got != want {
			t.Errorf("the watch with a selector gives %s, want %s", got, want)
		}
	}
	puts := slices.Repeat([]string{"put " + batchKey(1)}, 6)
	want := slices.Concat([]string{"load 0"}, puts, []string{"delete " + batchKey(1), "put " + batchKey(1)})
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Error(diff)
	}
}

// The acknowledgement of a batch is lost: its last message tells that it was written.
func TestBatchWithoutAcknowledgement(t *testing.T) {
	js := &forgetful{JetStream: connect(t, startEmbedded(t, t.TempDir()))}
	s := New(batchKind(), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	js.on.Store(true)
	putAll(t, s, puts(s, "", numbers(0, 20)...))
	putAll(t, s, puts(s, "", numbers(10, 30)...))
	if got := s.contents.count(); got != 30 {
		t.Errorf("%d objects, want 30", got)
	}
}

// A thousand values, which are encrypted, are one batch, and are there after a restart.
func TestLargestBatchIsReadAfterARestart(t *testing.T) {
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	opts := Options{Exclusive: true, Cipher: cipher(t, "one=a")}
	s := New(batchKind(), opts)
	stop := run(t, s, connect(t, server))
	awaitReady(t, s)
	all := puts(s, planted+strings.Repeat("n", 400), numbers(0, batch.Max)...)
	began := time.Now()
	last := putAll(t, s, all)
	t.Logf("%d values in %v", batch.Max, time.Since(began))
	stop()
	stopEmbedded(t, server)
	if files := onDisk(t, dir, planted); len(files) > 0 {
		t.Errorf("the values are in the files as they are: %v", files)
	}
	s = New(batchKind(), opts)
	run(t, s, connect(t, startEmbedded(t, dir)))
	awaitReady(t, s)
	if rev, count := s.contents.mirror.revision(), s.contents.count(); rev != last || count != batch.Max {
		t.Errorf("%d objects at revision %d, want %d at %d", count, rev, batch.Max, last)
	}
	putAll(t, s, puts(s, "again", numbers(0, batch.Max)...))
	if got := noteOf(t, s, 777); got != "again" {
		t.Errorf("the note is %q", got)
	}
}

// killedHosts are those of TestKilledBatchesAreWhole.
const killedHosts = 300

// raiseHostsAlways raises the numbers of all hosts with one batch after the other, and prints each that is
// acknowledged.
func raiseHostsAlways(ctx context.Context, s *Store) {
	all := numbers(0, killedHosts)
	for {
		if _, err := s.PutAll(ctx, raised(s, all...)); err != nil {
			panic(err)
		}
		fmt.Println(counted(s.contents.mirror.get(batchKey(0)).Value))
	}
}

// After kill -9 of the embedded server every acknowledged batch is there, and none in part.
func TestKilledBatchesAreWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range testkit.Few(4, 40) {
		length := time.Duration(100+rand.IntN(200)) * time.Millisecond
		printed := killedWriter(t, "batches", dir, 0, length)
		acked, _ := strconv.Atoi(printed[len(printed)-1])
		server := startEmbedded(t, dir)
		s := New(batchKind(), Options{Exclusive: true, Ledger: server})
		stop := run(t, s, connect(t, server))
		awaitReady(t, s)
		found := spread(s, killedHosts)
		t.Logf("round %d: %d acknowledged, and in the bucket %v", round, acked, found)
		for number, hosts := range found {
			if hosts != killedHosts || number < acked {
				t.Errorf("round %d: %d was acknowledged, and %d hosts have %d", round, acked, hosts, number)
			}
		}
		stop()
		stopEmbedded(t, server)
	}
}

// spread counts the hosts with each number.
func spread(s *Store, hosts int) map[int]int {
	found := map[int]int{}
	for i := range hosts {
		number := 0
		if e := s.contents.mirror.get(batchKey(i)); e != nil {
			number = counted(e.Value)
		}
		found[number]++
	}
	return found
}
