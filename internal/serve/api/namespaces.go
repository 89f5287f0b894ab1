package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/snapshot"
)

// namespaces creates a namespace with the first object in it. A deleted namespace is removed
// when it is empty. The lock keeps the two apart: objects are created under its read side.
type namespaces struct {
	mu     sync.RWMutex
	stores map[string]storage.Interface
	// inventory knows which namespaces are islands.
	inventory *snapshot.Inventory
}

// newNamespace has what the server sets in a new namespace.
func newNamespace() *v1.Namespace {
	return &v1.Namespace{
		Spec:   v1.NamespaceSpec{Finalizers: []string{v1.FinalizerNamespace}},
		Status: v1.NamespaceStatus{Phase: v1.NamespaceActive},
	}
}

func namespaceKey(name string) string { return "/" + kinds.Namespaces + "/" + name }

// ensure creates a namespace if there is none of that name. It fails if the namespace is
// being deleted.
func (n *namespaces) ensure(ctx context.Context, name string) error {
	// The copy in memory is new enough: a second creation of a namespace changes nothing.
	stored := &v1.Namespace{}
	err := n.stores[kinds.Namespaces].Get(ctx, namespaceKey(name), storage.GetOptions{ResourceVersion: "0"}, stored)
	if err == nil && stored.DeletionTimestamp != nil {
		return errTerminating
	}
	if !storage.IsNotFound(err) {
		return err
	}
	namespace := newNamespace()
	namespace.Name = name
	rest.FillObjectMetaSystemFields(namespace)
	err = n.stores[kinds.Namespaces].Create(ctx, namespaceKey(name), namespace, &v1.Namespace{}, 0)
	if storage.IsExist(err) {
		return nil
	}
	return err
}

var errTerminating = errors.New("the namespace is being terminated")

// ensureFor creates the namespace of an object. It answers as Kubernetes does if the
// namespace is being deleted.
func (n *namespaces) ensureFor(ctx context.Context, key string) error {
	parts := strings.SplitN(key, "/", 4) // "", resource, namespace, name
	resource, namespace, name := parts[1], parts[2], parts[3]
	err := n.ensure(ctx, namespace)
	if !errors.Is(err, errTerminating) {
		return err
	}
	refused := apierrors.NewForbidden(kinds.Of(resource).GroupResource(), name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", namespace),
	})
	return refused
}

// list returns the objects of a resource in a namespace.
func (n *namespaces) list(ctx context.Context, resource, namespace string) (runtime.Object, error) {
	list := kinds.Of(resource).NewList()
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	return list, n.stores[resource].GetList(ctx, "/"+resource+"/"+namespace, opts, list)
}

// namespacedStore creates the namespace of an object with the object.
type namespacedStore struct {
	storage.Interface
	namespaces *namespaces
}

func (s *namespacedStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s.namespaces.mu.RLock()
	defer s.namespaces.mu.RUnlock()
	if err := s.namespaces.ensureFor(ctx, key); err != nil {
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
				err = s.namespaces.ensureFor(ctx, key)
			}
			return obj, ttl, err
		}
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// namespaceREST is the endpoint of namespaces. It does not delete collections. A deleted
// namespace is Terminating until the terminator has deleted what is in it.
type namespaceREST struct {
	withoutCollections
	storage registry.DryRunnableStorage
}

// withoutCollections has the methods of an endpoint, except DeleteCollection.
type withoutCollections interface {
	reader
	rest.CreaterUpdater
	rest.GracefulDeleter
	rest.ResetFieldsStrategy
}

func newNamespaceREST(e *endpoint, r rights) *namespaceREST {
	// The terminator alone removes a namespace.
	e.ShouldDeleteDuringUpdate = func(context.Context, string, runtime.Object, runtime.Object) bool { return false }
	e.check = r.checkMarks
	return &namespaceREST{e, e.Storage}
}

func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := checkName(kinds.Namespaces, name, nil); err != nil {
		return nil, false, err
	}
	resource := v1.Resource(kinds.Namespaces)
	if name == v1.NamespaceDefault {
		return nil, false, apierrors.NewForbidden(resource, name, errors.New("this namespace may not be deleted"))
	}
	preconditions := &storage.Preconditions{}
	if options.Preconditions != nil {
		preconditions.UID, preconditions.ResourceVersion = options.Preconditions.UID, options.Preconditions.ResourceVersion
	}
	terminate := func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		namespace := obj.(*v1.Namespace)
		note(ctx, change{old: namespace.DeepCopy()})
		if err := validate(ctx, namespace); err != nil {
			return nil, nil, err
		}
		if namespace.DeletionTimestamp == nil {
			now := metav1.Now()
			namespace.DeletionTimestamp = &now
		}
		namespace.Spec, namespace.Status.Phase = newNamespace().Spec, v1.NamespaceTerminating
		return namespace, nil, nil
	}
	out := &v1.Namespace{}
	err := r.storage.GuaranteedUpdate(ctx, namespaceKey(name), out, false, preconditions, terminate,
		dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		return nil, false, storeerr.InterpretDeleteError(err, resource, name)
	}
	return out, false, nil
}
