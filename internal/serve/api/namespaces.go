package api

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
)

// namespaces creates a namespace with the first object in it, and lets a namespace be
// deleted when it is empty. The lock keeps the two apart: objects are created under its
// read side.
type namespaces struct {
	mu     sync.RWMutex
	stores map[string]storage.Interface
}

// ensure creates a namespace if there is none of that name.
func (n *namespaces) ensure(ctx context.Context, name string) error {
	key := "/" + kinds.Namespaces + "/" + name
	// The copy in memory is new enough: a second creation of a namespace changes nothing.
	err := n.stores[kinds.Namespaces].Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, &v1.Namespace{})
	if !storage.IsNotFound(err) {
		return err
	}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}}
	rest.FillObjectMetaSystemFields(namespace)
	err = n.stores[kinds.Namespaces].Create(ctx, key, namespace, &v1.Namespace{}, 0)
	if storage.IsExist(err) {
		return nil
	}
	return err
}

// createDefault creates the namespace "default" as soon as the store answers.
func (n *namespaces) createDefault(ctx context.Context, logger *slog.Logger) {
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := n.ensure(ctx, v1.NamespaceDefault)
		if err != nil {
			logger.Debug("cannot create the namespace default yet", "error", err)
		}
		return err == nil, nil
	})
}

// list returns the objects of a resource in a namespace.
func (n *namespaces) list(ctx context.Context, resource, namespace string) (runtime.Object, error) {
	list := kindsByResource[resource].NewList()
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	return list, n.stores[resource].GetList(ctx, "/"+resource+"/"+namespace, opts, list)
}

// contents returns what a namespace has, such as "2 baremetalhosts, 1 ignitionconfigs", and
// "" for an empty one.
func (n *namespaces) contents(ctx context.Context, namespace string) (string, error) {
	var found []string
	for _, resource := range []string{kinds.BareMetalHosts, kinds.IgnitionConfigs, kinds.ISCSICdroms, kinds.ConfigMaps} {
		list, err := n.list(ctx, resource, namespace)
		if err != nil {
			return "", err
		}
		if count := meta.LenList(list); count > 0 {
			found = append(found, fmt.Sprintf("%d %s", count, resource))
		}
	}
	return strings.Join(found, ", "), nil
}

// deleteEvents deletes the events of a deleted namespace. They would expire anyway, so
// failures are ignored.
func (n *namespaces) deleteEvents(ctx context.Context, namespace string) {
	list, err := n.list(ctx, kinds.Events, namespace)
	if err != nil {
		return
	}
	for _, event := range list.(*v1.EventList).Items {
		key := "/" + kinds.Events + "/" + namespace + "/" + event.Name
		_ = n.stores[kinds.Events].Delete(ctx, key, &v1.Event{}, nil, rest.ValidateAllObjectFunc, nil,
			storage.DeleteOptions{})
	}
}

// namespacedStore creates the namespace of an object with the object.
type namespacedStore struct {
	storage.Interface
	namespaces *namespaces
}

func (s *namespacedStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s.namespaces.mu.RLock()
	defer s.namespaces.mu.RUnlock()
	if err := s.namespaces.ensure(ctx, namespaceOf(key)); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate creates an object as well, for server-side apply.
func (s *namespacedStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object,
	ignoreNotFound bool, preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc,
	cached runtime.Object) error {
	update := tryUpdate
	if ignoreNotFound {
		s.namespaces.mu.RLock()
		defer s.namespaces.mu.RUnlock()
		update = func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
			obj, ttl, err := tryUpdate(input, res)
			if err == nil && res.ResourceVersion == 0 {
				err = s.namespaces.ensure(ctx, namespaceOf(key))
			}
			return obj, ttl, err
		}
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// namespaceOf returns the namespace in "/<resource>/<namespace>/<name>".
func namespaceOf(key string) string { return strings.SplitN(key, "/", 4)[2] }

// namespaceREST is the endpoint of namespaces. It does not delete collections, and deletes
// a namespace only if that is empty.
type namespaceREST struct {
	withoutCollections
	namespaces *namespaces
}

// withoutCollections has the methods of an endpoint, except DeleteCollection.
type withoutCollections interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.CreaterUpdater
	rest.GracefulDeleter
	rest.ResetFieldsStrategy
}

func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if name == v1.NamespaceDefault {
		return nil, false, apierrors.NewForbidden(v1.Resource(kinds.Namespaces), name,
			fmt.Errorf("this namespace may not be deleted"))
	}
	r.namespaces.mu.Lock()
	defer r.namespaces.mu.Unlock()
	whenEmpty := func(ctx context.Context, obj runtime.Object) error {
		contents, err := r.namespaces.contents(ctx, name)
		if err != nil {
			return err
		}
		if contents != "" {
			return apierrors.NewConflict(v1.Resource(kinds.Namespaces), name,
				fmt.Errorf("it is not empty: delete its %s first", contents))
		}
		if validate != nil {
			return validate(ctx, obj)
		}
		return nil
	}
	out, gone, err := r.withoutCollections.Delete(ctx, name, whenEmpty, options)
	if err == nil && gone && len(options.DryRun) == 0 {
		r.namespaces.deleteEvents(ctx, name)
	}
	return out, gone, err
}
