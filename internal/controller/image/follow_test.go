package image

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// awayStore is a store that is away until a time, and fails with an error afterwards.
type awayStore struct {
	storage.Interface
	until time.Time
	err   error
}

func (s awayStore) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	if time.Now().Before(s.until) {
		return apierrors.NewServiceUnavailable("the bucket was not read yet")
	}
	return s.err
}

func TestListWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("an object is damaged")
		for _, want := range []error{nil, broken} {
			store := awayStore{until: time.Now().Add(10 * time.Second), err: want}
			c := &Controller{opts: Options{Store: store}}
			if _, err := c.listCdroms(t.Context(), storage.ListOptions{}); err != want {
				t.Errorf("%v; want %v", err, want)
			}
			if late := time.Since(store.until); late < 0 || late > listPauseMax {
				t.Errorf("listed %v after the store was back", late)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		store := awayStore{until: time.Now().Add(time.Hour)}
		c := &Controller{opts: Options{Store: store}}
		if _, err := c.listCdroms(ctx, storage.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("after the end: %v", err)
		}
	})
}
