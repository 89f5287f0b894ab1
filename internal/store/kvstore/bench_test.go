package kvstore

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
)

const writers = 16

// hostCodec stores hosts as plain JSON.
type hostCodec struct{}

func (hostCodec) Encode(obj k8sruntime.Object) ([]byte, error) { return json.Marshal(obj) }
func (hostCodec) Decode(value []byte, into k8sruntime.Object) error {
	return json.Unmarshal(value, into)
}

func hostKind(bucket string) Kind {
	return Kind{
		Bucket:   bucket,
		Resource: "baremetalhosts",
		New:      func() k8sruntime.Object { return &v1.BareMetalHost{} },
		NewList:  func() k8sruntime.Object { return &v1.BareMetalHostList{} },
		Codec:    hostCodec{},
	}
}

// host makes a host of usual size: some 700 bytes stored.
func host(i int) *v1.BareMetalHost {
	labels := map[string]string{"role": "worker", "rack": fmt.Sprint(i % 400), "site": "north", "model": "r650"}
	h := &v1.BareMetalHost{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("host-%06d", i), Labels: labels,
			UID:               types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)), Generation: 1,
			Annotations: map[string]string{"note": "a host of the benchmark, with an annotation of usual length that " +
				"somebody wrote"},
		},
	}
	h.Spec.BootMACAddress = fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16&255, i>>8&255, i&255)
	h.Spec.IP = fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	h.Spec.Hostname = h.Name + ".example.com"
	return h
}

// parallel lets the writers share the numbers 0 to n-1.
func parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, writers)
	for range writers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// BenchmarkCreate and BenchmarkPlainPut write the same bytes with 16 writers:
// through storage.Interface, and with the KV client alone.
func BenchmarkCreate(b *testing.B) {
	js := connect(b, startEmbedded(b, b.TempDir()))
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(b, s, js)
	awaitReady(b, s)
	b.ResetTimer()
	err := parallel(b.N, func(i int) error {
		h := host(i)
		return s.Create(context.Background(), "/baremetalhosts/default/"+h.Name, h, &v1.BareMetalHost{}, 0)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "create/s")
}

func BenchmarkPlainPut(b *testing.B) {
	js := connect(b, startEmbedded(b, b.TempDir()))
	kv, err := js.CreateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "HOSTS"})
	if err != nil {
		b.Fatal(err)
	}
	value, err := hostCodec{}.Encode(host(1))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	err = parallel(b.N, func(i int) error {
		_, err := kv.Put(context.Background(), fmt.Sprintf("default/host-%06d", i), value)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "put/s")
}

// BenchmarkCreateRatio does both by turns, since a disk's mood changes, and gives
// the ratio of their median rates. An iteration is 300 writes of each.
func BenchmarkCreateRatio(b *testing.B) {
	const round = 300
	js := connect(b, startEmbedded(b, b.TempDir()))
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(b, s, js)
	awaitReady(b, s)
	plain := connect(b, startEmbedded(b, b.TempDir()))
	kv, err := plain.CreateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "HOSTS"})
	if err != nil {
		b.Fatal(err)
	}
	value, err := hostCodec{}.Encode(host(1))
	if err != nil {
		b.Fatal(err)
	}
	var creates, puts []time.Duration
	n := 0
	for b.Loop() {
		base := n * round
		n++
		began := time.Now()
		if err := parallel(round, func(i int) error {
			h := host(base + i)
			return s.Create(context.Background(), hostKey(base+i), h, &v1.BareMetalHost{}, 0)
		}); err != nil {
			b.Fatal(err)
		}
		creates = append(creates, time.Since(began))
		began = time.Now()
		if err := parallel(round, func(i int) error {
			_, err := kv.Put(context.Background(), fmt.Sprintf("default/host-%06d", base+i), value)
			return err
		}); err != nil {
			b.Fatal(err)
		}
		puts = append(puts, time.Since(began))
	}
	slices.Sort(creates)
	slices.Sort(puts)
	create, put := creates[n/2], puts[n/2]
	b.ReportMetric(round/create.Seconds(), "create/s")
	b.ReportMetric(round/put.Seconds(), "put/s")
	b.ReportMetric(put.Seconds()/create.Seconds(), "ratio")
}

// BenchmarkLoad reads a bucket of 100,000 hosts.
func BenchmarkLoad(b *testing.B) {
	const hosts = 100_000
	js := connect(b, startEmbedded(b, b.TempDir()))
	fillBucket(b, js, "HOSTS", hosts)
	b.ResetTimer()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		s := New(hostKind("HOSTS"), Options{Exclusive: true})
		stop := run(b, s, js)
		for s.connection.ReadinessCheck() != nil {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/load")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		if count, _ := s.contents.mirror.stats(); count != hosts {
			b.Fatalf("%d objects, want %d", count, hosts)
		}
		stop()
	}
}

// fillBucket puts hosts without waiting for each.
func fillBucket(tb testing.TB, js jetstream.JetStream, bucket string, n int) {
	tb.Helper()
	s := New(hostKind(bucket), Options{})
	cfg := s.bucket.streamConfig()
	cfg.PersistMode = jetstream.AsyncPersistMode
	if _, err := js.CreateStream(context.Background(), cfg); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		w, err := s.bucket.encode(fmt.Sprintf("default/host-%06d", i), host(i))
		if err != nil {
			tb.Fatal(err)
		}
		msg, err := s.bucket.message(context.Background(), w, "fill")
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := js.PublishMsgAsync(msg); err != nil {
			tb.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}
