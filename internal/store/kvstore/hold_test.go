package kvstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
)

func keyOf(i int) string { return fmt.Sprintf("/baremetalhosts/ns%d/host-%06d", i/2, i) }

// TestRequestsHoldWhatTheyRead: what a request reads is taken from its budget
// before it is decoded, and is refused with 429 where there is none left.
func TestRequestsHoldWhatTheyRead(t *testing.T) {
	s := New(hostKind("HELD"), Options{Exclusive: true})
	run(t, s, connect(t, startEmbedded(t, t.TempDir())))
	awaitReady(t, s)
	for i := range 4 {
		h := host(i)
		h.Namespace = fmt.Sprint("ns", i/2)
		if i > 0 {
			h.Annotations = map[string]string{"text": strings.Repeat("x", 100_000)}
		}
		if err := s.Create(t.Context(), keyOf(i), h, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := func(prefix string, limit int64) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
			opts.Predicate.Limit = limit
			return s.GetList(ctx, prefix, opts, &v1.BareMetalHostList{})
		}
	}
	update := func(ctx context.Context) error {
		return s.GuaranteedUpdate(ctx, keyOf(3), &v1.BareMetalHost{}, false, nil, storage.SimpleUpdate(
			func(obj runtime.Object) (runtime.Object, error) { return obj, nil }), nil)
	}
	const one = 100_000 * readFactor
	for name, c := range map[string]struct {
		do        func(ctx context.Context) error
		low, high int64
	}{
		"a list of all":         {list("/baremetalhosts/", 0), 3 * one, 4 * one},
		"a list of a namespace": {list("/baremetalhosts/ns1/", 0), 2 * one, 3 * one},
		"a list with a limit":   {list("/baremetalhosts/ns1/", 1), one, 2 * one},
		"one that is large": {func(ctx context.Context) error {
			return s.Get(ctx, keyOf(3), storage.GetOptions{}, &v1.BareMetalHost{})
		}, one, 2 * one},
		"one that is small": {func(ctx context.Context) error {
			return s.Get(ctx, keyOf(0), storage.GetOptions{}, &v1.BareMetalHost{})
		}, 0, 0},
		"an update": {update, one, 2 * one},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget.New(1<<30, time.Millisecond)
			account := b.Open("")
			if err := c.do(budget.With(t.Context(), account)); err != nil {
				t.Fatal(err)
			}
			if used := b.Stats().Used; used < c.low || used > c.high {
				t.Errorf("%d bytes are held, want %d to %d", used, c.low, c.high)
			}
			full := budget.New(1000, time.Millisecond)
			if err := full.Open("").Hold(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			err := c.do(budget.With(t.Context(), full.Open("")))
			if after, ok := apierrors.SuggestsClientDelay(err); c.low > 0 && (!apierrors.IsTooManyRequests(err) || !ok ||
				after < 1) {
				t.Errorf("without room: %v", err)
			}
			if err := c.do(t.Context()); err != nil {
				t.Errorf("the server's own: %v", err)
			}
		})
	}
}
