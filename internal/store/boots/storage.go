package boots

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
)

// prefix begins the storage keys of boots.
const prefix = "/" + kinds.Boots + "/"

// Storage is what clients read of boots: the newest of each host from the bucket, and those before it from the
// history. A boot has the storage key /boots/namespace/HOST.NUMBER, and the bucket has /boots/namespace/HOST.
type Storage struct {
	storage.Interface
	bucket  *kvstore.Store
	history *History
}

// NewStorage returns the Storage of a bucket and a history.
func NewStorage(bucket *kvstore.Store, history *History) *Storage {
	return &Storage{bucket, bucket, history}
}

// Get reads a boot.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	host, _, ok := splitName(name)
	if !ok {
		return missing(key, opts, out)
	}
	err := s.bucket.Get(ctx, prefix+namespace+"/"+host, opts, out)
	boot, isBoot := out.(*v1.Boot)
	if err == nil && isBoot && boot.Name == name || err != nil && !storage.IsNotFound(err) {
		return err
	}
	found, err := s.history.Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return missing(key, opts, out)
	case err != nil:
		return unavailable(err)
	}
	found.DeepCopyInto(boot)
	return nil
}

func missing(key string, opts storage.GetOptions, out runtime.Object) error {
	if opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// unavailable is the answer to a client where the history cannot be read.
func unavailable(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewServiceUnavailable(err.Error())
}

// Watch follows the newest boots of hosts. The end of a boot is no event: the next one of its host is added.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	q := queryOf(key, opts)
	if q.namespace != "" && q.host != "" {
		key, opts.Recursive = prefix+q.namespace+"/"+q.host, false
	}
	return s.bucket.Watch(ctx, key, opts)
}

// Empty removes the boots of a namespace.
func (s *Storage) Empty(ctx context.Context, namespace string) error {
	view, err := kvstore.ViewOf(ctx, s.bucket, "")
	if err != nil {
		return err
	}
	var failures []error
	view.Each(namespace+"/", func(item kvstore.Item) {
		err := s.bucket.Delete(ctx, prefix+item.Key, &v1.Boot{}, nil, storage.ValidateAllObjectFunc, nil,
			storage.DeleteOptions{})
		if err != nil && !storage.IsNotFound(err) {
			failures = append(failures, err)
		}
	})
	return errors.Join(append(failures, s.history.Purge(ctx, namespace, ""))...)
}
