package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
)

var (
	podScheme = runtime.NewScheme()
	podCodecs = serializer.NewCodecFactory(podScheme)
)

func init() {
	metav1.AddToGroupVersion(podScheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(podScheme))
	utilruntime.Must(examplev1.AddToScheme(podScheme))
}

// podCodec is the codec of the conformance cases: it has the value transformer,
// and the switch to fail, that some cases turn.
type podCodec struct {
	codec       runtime.Codec
	transformer atomic.Pointer[value.Transformer]
	failing     atomic.Bool
}

func newPodCodec() *podCodec {
	c := &podCodec{codec: apitesting.TestCodec(podCodecs, examplev1.SchemeGroupVersion)}
	c.set(storagetesting.NewPrefixTransformer([]byte("test!"), false))
	return c
}

func (c *podCodec) set(t value.Transformer) { c.transformer.Store(&t) }

func (c *podCodec) Encode(obj runtime.Object) ([]byte, error) {
	data, err := runtime.Encode(c.codec, obj)
	if err != nil {
		return nil, err
	}
	return (*c.transformer.Load()).TransformToStorage(context.Background(), data, value.DefaultContext{})
}

func (c *podCodec) Decode(stored []byte, into runtime.Object) error {
	if c.failing.Load() {
		return errors.New("synthetic error")
	}
	data, _, err := (*c.transformer.Load()).TransformFromStorage(context.Background(), stored, c.context(stored))
	if err != nil {
		return err
	}
	_, _, err = c.codec.Decode(data, nil, into)
	return err
}

// context names the object to the transformer, as the cases that make single
// objects fail expect it.
func (c *podCodec) context(stored []byte) value.Context {
	i := strings.IndexByte(string(stored), '{')
	pod := &example.Pod{}
	if _, _, err := c.codec.Decode(stored[max(i, 0):], nil, pod); err != nil {
		return value.DefaultContext{}
	}
	return value.DefaultContext("/pods/" + pod.Namespace + "/" + pod.Name)
}

func (c *podCodec) Stale(stored []byte) bool {
	_, stale, err := (*c.transformer.Load()).TransformFromStorage(context.Background(), stored, c.context(stored))
	return err == nil && stale
}

// fixture is a store with what the cases may do to it.
type fixture struct {
	*Store
	codec  *podCodec
	js     jetstream.JetStream
	bumped uint64
}

func (f *fixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	original := *f.codec.transformer.Load()
	changed := *original.(*storagetesting.PrefixTransformer)
	f.codec.set(modify(&changed))
	return func() { f.codec.set(original) }
}

// reproducing is a fixture for the case whose transformer writes objects.
type reproducing struct{ *fixture }

func (f reproducing) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	original := *f.codec.transformer.Load()
	revert := f.fixture.UpdatePrefixTransformer(modify)
	f.codec.set(&outermost{Transformer: *f.codec.transformer.Load(), inner: original})
	return revert
}

// outermost keeps a transformer from transforming for itself: a codec is asked to
// read what was written.
type outermost struct {
	value.Transformer
	inner value.Transformer
	busy  atomic.Bool
}

func (o *outermost) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	if !o.busy.CompareAndSwap(false, true) {
		return o.inner.TransformFromStorage(ctx, data, c)
	}
	defer o.busy.Store(false)
	return o.Transformer.TransformFromStorage(ctx, data, c)
}

func (f *fixture) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	original := *f.codec.transformer.Load()
	f.codec.set(modify(original))
	return func() { f.codec.set(original) }
}

// compact returns up old revisions. As in etcd, that is a revision in itself.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	rev, err := f.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	f.contents.mirror.compact(rev)
	f.increaseRV(ctx, t)
}

// compact gives up every event before a revision.
func (m *mirror) compact(rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.events) && m.events[n].rev <= rev {
		m.windowBytes -= m.events[n].size()
		n++
	}
	m.drop(n)
	m.floor, m.compacted = max(m.floor, rev), max(m.compacted, rev)
}

// increaseRV stands for a write of another kind, which in etcd has the same
// revisions. It deletes a key that is not there: by the store itself where that
// must be the only writer.
func (f *fixture) increaseRV(ctx context.Context, t *testing.T) int64 {
	if !f.bucket.opts.Exclusive {
		return int64(bump(ctx, t, f.js, f.bucket.kind.Bucket))
	}
	rev, err := f.publish(ctx, write{key: "bump", expect: f.bumped})
	if err != nil {
		t.Fatal(err)
	}
	f.bumped = rev
	return int64(rev)
}

// stored checks what lies in the bucket.
func (f *fixture) stored(ctx context.Context, t *testing.T, key string) {
	kv, err := f.js.KeyValue(ctx, f.bucket.kind.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(ctx, strings.TrimPrefix(key, "/pods/"))
	if err != nil {
		t.Fatalf("reading %s with the KV client: %v", key, err)
	}
	pod := &example.Pod{}
	if err := f.codec.Decode(e.Value(), pod); err != nil {
		t.Fatal(err)
	}
	if pod.ResourceVersion != "" || pod.GetSelfLink() != "" {
		t.Errorf("stored object has resourceVersion %q and selfLink %q, want none", pod.ResourceVersion, pod.GetSelfLink())
	}
}

type conformanceCase struct {
	name string
	run  func(ctx context.Context, t *testing.T, f *fixture)
}

// sleepers are the cases that mostly wait, and change no feature gate: they run
// side by side, after the others.
var sleepers = map[string]bool{
	"CreateWithTTL": true, "GuaranteedUpdateWithTTL": true, "DelayedWatchDelivery": true, "ProgressNotify": true,
	"WatchDispatchBookmarkEvents": true, "WatchBookmarksWithCorrectResourceVersion": true,
}

// plain adapts the cases that want nothing but a store.
func plain(c func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *fixture) {
	return func(ctx context.Context, t *testing.T, f *fixture) { c(ctx, t, f) }
}

// conformance lists every case that k8s.io/apiserver/pkg/storage/testing exports, but
// for gated; TestConformanceIsComplete says so. Two kinds of arguments are
// not used: those that count etcd's requests, and those that describe a watch
// cache, since there is neither.
var conformance = []conformanceCase{
	{"Create", func(ctx context.Context, t *testing.T, f *fixture) { storagetesting.RunTestCreate(ctx, t, f, f.stored) }},
	{"CreateWithTTL", plain(storagetesting.RunTestCreateWithTTL)},
	{"CreateWithKeyExist", plain(storagetesting.RunTestCreateWithKeyExist)},
	{"Get", plain(storagetesting.RunTestGet)},
	{"UnconditionalDelete", plain(storagetesting.RunTestUnconditionalDelete)},
	{"ConditionalDelete", plain(storagetesting.RunTestConditionalDelete)},
	{"DeleteWithSuggestion", plain(storagetesting.RunTestDeleteWithSuggestion)},
	{"DeleteWithSuggestionAndConflict", plain(storagetesting.RunTestDeleteWithSuggestionAndConflict)},
	{"DeleteWithConflict", plain(storagetesting.RunTestDeleteWithConflict)},
	{"DeleteWithSuggestionOfDeletedObject", plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject)},
	{"ValidateDeletionWithSuggestion", plain(storagetesting.RunTestValidateDeletionWithSuggestion)},
	{"ValidateDeletionWithOnlySuggestionValid", plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid)},
	{"PreconditionalDeleteWithSuggestion", plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion)},
	{"PreconditionalDeleteWithOnlySuggestionPass",
		plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass)},
	{"List", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestList(ctx, t, f, f.compact, false, nil)
	}},
	{"ConsistentList", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestConsistentList(ctx, t, f, f.increaseRV, false, true, false)
	}},
	{"GetListNonRecursive", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRV, f)
	}},
	{"GetListRecursivePrefix", plain(storagetesting.RunTestGetListRecursivePrefix)},
	{"GetListWithoutErrorAggregation", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGetListWithoutErrorAggregation(ctx, t, f, errors.New("bits flipped"))
	}},
	{"ListContinuation", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuation(ctx, t, f, func(*testing.T, uint64, uint64) {})
	}},
	{"ListPaginationRareObject", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, f, nil)
	}},
	{"ListContinuationWithFilter", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, f, func(*testing.T, uint64, uint64) {})
	}},
	{"ListInconsistentContinuation", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, f, f.compact)
	}},
	{"ListResourceVersionMatch", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListResourceVersionMatch(ctx, t, reproducing{f})
	}},
	{"ListPaging", plain(storagetesting.RunTestListPaging)},
	{"NamespaceScopedList", plain(storagetesting.RunTestNamespaceScopedList)},
	{"GuaranteedUpdate", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, f, f.stored)
	}},
	{"GuaranteedUpdateWithTTL", plain(storagetesting.RunTestGuaranteedUpdateWithTTL)},
	{"GuaranteedUpdateChecksStoredData", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, f)
	}},
	{"GuaranteedUpdateWithConflict", plain(storagetesting.RunTestGuaranteedUpdateWithConflict)},
	{"GuaranteedUpdateWithSuggestionAndConflict", plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict)},
	{"TransformationFailure", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestTransformationFailure(ctx, t, f)
	}},
	{"Stats", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestStats(ctx, t, f, f.codec.codec, *f.codec.transformer.Load(), false)
	}},
	{"StatsWithSizes", func(ctx context.Context, t *testing.T, f *fixture) {
		if err := f.EnableResourceSizeEstimation(func(context.Context) ([]string, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		storagetesting.RunTestStats(ctx, t, f, f.codec.codec, *f.codec.transformer.Load(), true)
	}},
	{"CompactRevision", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestCompactRevision(ctx, t, f, f.increaseRV, f.compact)
	}},
	{"KeySchema", plain(storagetesting.RunTestKeySchema)},

	{"Watch", plain(storagetesting.RunTestWatch)},
	{"WatchFromZero", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchFromZero(ctx, t, f, f.compact)
	}},
	{"DeleteTriggerWatch", plain(storagetesting.RunTestDeleteTriggerWatch)},
	{"WatchFromNonZero", plain(storagetesting.RunTestWatchFromNonZero)},
	{"DelayedWatchDelivery", plain(storagetesting.RunTestDelayedWatchDelivery)},
	{"WatchError", func(ctx context.Context, t *testing.T, f *fixture) { storagetesting.RunTestWatchError(ctx, t, f) }},
	{"WatchContextCancel", plain(storagetesting.RunTestWatchContextCancel)},
	{"WatcherTimeout", plain(storagetesting.RunTestWatcherTimeout)},
	{"WatchDeleteEventObjectHaveLatestRV", plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV)},
	{"WatchInitializationSignal", plain(storagetesting.RunTestWatchInitializationSignal)},
	{"ProgressNotify", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, f, f.increaseRV)
	}},
	{"ClusterScopedWatch", plain(storagetesting.RunTestClusterScopedWatch)},
	{"NamespaceScopedWatch", plain(storagetesting.RunTestNamespaceScopedWatch)},
	{"WatchDispatchBookmarkEvents", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f, true)
	}},
	{"WatchBookmarksWithCorrectResourceVersion",
		plain(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion)},
	{"SendInitialEventsBackwardCompatibility", plain(storagetesting.RunSendInitialEventsBackwardCompatibility)},
	{"WatchSemantics", plain(storagetesting.RunWatchSemantics)},
	{"WatchSemanticInitialEventsExtended", plain(storagetesting.RunWatchSemanticInitialEventsExtended)},
	{"WatchListMatchSingle", plain(storagetesting.RunWatchListMatchSingle)},
	{"WatchErrorIsBlockingFurtherEvents", func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, f)
	}},
}

func TestConformance(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		server := startEmbedded(t, t.TempDir())
		runConformance(t, connect(t, server), Options{Exclusive: true})
	})
	t.Run("external", func(t *testing.T) {
		runConformance(t, newJetStream(t, startExternal(t).dial()), Options{})
	})
}

func runConformance(t *testing.T, js jetstream.JetStream, opts Options) {
	opts.BookmarkInterval = time.Second
	for i, c := range conformance {
		t.Run(c.name, func(t *testing.T) {
			if sleepers[c.name] {
				t.Parallel()
			}
			codec := newPodCodec()
			f := &fixture{codec: codec, js: js, Store: New(Kind{
				Bucket:   fmt.Sprintf("PODS%d", i),
				Resource: "pods",
				New:      func() runtime.Object { return &example.Pod{} },
				NewList:  func() runtime.Object { return &example.PodList{} },
				Codec:    codec,
			}, opts)}
			run(t, f.Store, js)
			awaitReady(t, f.Store)
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel) // some cases have parallel parts, which outlive them
			c.run(ctx, t, f)
		})
	}
}
