package api

import (
	"context"
	"errors"
	"math"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/tools/cache"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/snapshot"
)

// eventTTL is how long an event lives, in seconds.
const eventTTL = 24 * 60 * 60

// restOptions gives the library our store of a resource in place of an etcd.
func restOptions(kind *kinds.Kind, store storage.Interface) generic.RESTOptions {
	version := kind.GroupVersion
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{
			Config: storagebackend.Config{
				Codec:           codecs.LegacyCodec(version),
				EncodeVersioner: version,
			},
			GroupResource: kind.GroupResource(),
		},
		ResourcePrefix:          kind.Resource,
		DeleteCollectionWorkers: 4,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return store, func() {}, nil
		},
	}
}

// endpoints are those of the kinds, by resource and subresource.
type endpoints struct {
	namespaces *namespaces
	// inventory has the objects on which the impact of a write depends.
	// written is called after each write that has succeeded.
	inventory *snapshot.Inventory
	written   func(context.Context, *attempt)
	storage   map[string]rest.Storage
	err       error
}

// install adds the endpoints of a kind and returns the main one.
func install[T object](into *endpoints, k *kind[T]) *endpoint {
	main := k.mainStrategy()
	store := &registry.Store{
		NewFunc:                   k.New,
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.GroupResource(),
		SingularQualifiedResource: k.WithResource(k.Singular).GroupResource(),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		TableConvertor:            k.table,
	}
	if k.read != nil {
		store.Decorator = func(obj runtime.Object) { decorate(obj, k.read) }
	}
	objects := into.namespaces.stores[k.Resource]
	if k.Namespaced {
		objects = &namespacedStore{objects, into.namespaces}
	}
	opts := &generic.StoreOptions{RESTOptions: restOptions(k.Kind, objects)}
	if k.fields != nil {
		opts.AttrFunc = k.fields.attributesOf
	}
	if k.Resource == kinds.Events {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return eventTTL, nil }
	}
	into.err = errors.Join(into.err, store.CompleteWithOptions(opts))
	keyOf := store.KeyFunc
	store.KeyFunc = func(ctx context.Context, name string) (string, error) {
		if err := checkName(k.Resource, name, k.isName); err != nil {
			return "", err
		}
		return keyOf(ctx, name)
	}
	e := newEndpoint(store, k.secrecy)
	e.inventory, e.finished = into.inventory, append(e.finished, into.written)
	if k.ShortName != "" {
		e.shortNames = []string{k.ShortName}
	}
	if k.InAll {
		e.categories = []string{"all"}
	}
	into.storage[k.Resource] = e
	if k.keepInStatus != nil {
		status, strategy := *store, k.statusStrategy()
		status.UpdateStrategy, status.ResetFieldsStrategy = strategy, strategy
		into.storage[k.Resource+"/status"] = &statusREST{newEndpoint(&status, k.secrecy), k.statusWritten}
	}
	return e
}

// decorate calls read for an object, or for each of a list.
func decorate[T object](obj runtime.Object, read func(T)) {
	if one, ok := obj.(T); ok {
		read(one)
		return
	}
	if meta.IsListType(obj) {
		_ = meta.EachListItem(obj, func(item runtime.Object) error {
			decorate(item, read)
			return nil
		})
	}
}

// checkName refuses a name that no object can have, before it becomes a key. isName returns the
// reasons; nil: a name is a DNS subdomain.
func checkName(resource, name string, isName apivalidation.ValidateNameFunc) error {
	if isName == nil {
		isName = apivalidation.NameIsDNSSubdomain
	}
	msgs := isName(name, false)
	if len(msgs) == 0 {
		return nil
	}
	shown := clip(name, 64)
	return apierrors.NewInvalid(groupKind(resource), shown, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "name"), shown, strings.Join(msgs, "; ")),
	})
}

// endpoint serves the objects of a kind.
type endpoint struct {
	*registry.Store
	shortNames []string
	categories []string
	inventory  *snapshot.Inventory
	// secrecy is what is confidential in an object; nil: nothing.
	secrecy *secrecy
	// check returns why the user of a request may not write obj in place of old, which is empty for a new object.
	check func(ctx context.Context, obj, old object) error
	// prepare is called before an update or deletion that is no dry run.
	prepare func(context.Context) error
	// spare returns why an object is not deleted with the options of a request.
	spare func(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) error
	// finished are called after each write or delete that has succeeded.
	finished []func(context.Context, *attempt)
}

func (e *endpoint) ShortNames() []string { return e.shortNames }
func (e *endpoint) Categories() []string { return e.categories }

// newEndpoint returns an endpoint that refuses nothing.
func newEndpoint(store *registry.Store, secrecy *secrecy) *endpoint {
	return &endpoint{
		Store: store, secrecy: secrecy,
		check:   func(context.Context, object, object) error { return nil },
		prepare: func(context.Context) error { return nil },
		spare:   func(context.Context, runtime.Object, *metav1.DeleteOptions) error { return nil },
	}
}

// ready prepares an update or deletion, unless that is a dry run.
func (e *endpoint) ready(ctx context.Context, dryRun []string) error {
	if dryrun.IsDryRun(dryRun) {
		return nil
	}
	return e.prepare(ctx)
}

// deletable returns a validation of deletions that also refuses the objects that are spared.
func (e *endpoint) deletable(validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := e.spare(ctx, obj, options); err != nil {
			return err
		}
		return validate(ctx, obj)
	}
}

// Update stores an object in place of another one, or a new one.
func (e *endpoint) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if err := e.ready(ctx, options.DryRun); err != nil {
		return nil, false, err
	}
	ctx, a := e.withAttempt(ctx, options.DryRun)
	info = rest.WrapUpdatedObjectInfo(e.secrecy.updated(info),
		func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
			return obj, e.check(ctx, obj.(object), old.(object))
		})
	out, created, err := e.Store.Update(ctx, name, info, create, update, forceCreate, options)
	if err == nil {
		e.finish(ctx, a)
	}
	return e.secrecy.redact(ctx, out), created, ourError(ctx, err, name)
}

// DeleteCollection deletes all objects of one list. The library would list page by
// page while its deletes are under way, and these move the window, in which a list
// can be continued, past the end of a page: beyond its 10,000 changes the next page
// is 410. A list without pages never needs the window.
func (e *endpoint) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := e.ready(ctx, options.DryRun); err != nil {
		return nil, err
	}
	if list.Limit == 0 && list.Continue == "" {
		list = list.DeepCopy()
		list.Limit = math.MaxInt64
	}
	out, err := e.Store.DeleteCollection(ctx, e.deletable(validate, options), options, list)
	return e.secrecy.redact(ctx, out), err
}

// Get reads an object.
func (e *endpoint) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	out, err := e.Store.Get(ctx, name, options)
	return e.secrecy.redact(ctx, out), err
}

// List reads objects.
func (e *endpoint) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	out, err := e.Store.List(ctx, options)
	return e.secrecy.redact(ctx, out), err
}

// Watch follows objects.
func (e *endpoint) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	w, err := e.Store.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return e.secrecy.watched(ctx, w), nil
}

// statusREST is the subresource status: an endpoint that reads and updates.
type statusREST struct {
	readUpdater
	// written is called after an update; nil: nobody has to know.
	written func(ctx context.Context, a *attempt) error
}

type readUpdater interface {
	rest.Storage
	rest.Patcher
	rest.TableConvertor
	rest.ResetFieldsStrategy
}

// Update never creates an object.
func (r *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	a := &attempt{dryRun: dryrun.IsDryRun(options.DryRun)}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	out, created, err := r.readUpdater.Update(ctx, name, info, create, update, false, options)
	if err == nil && r.written != nil && !a.dryRun {
		err = r.written(ctx, a)
	}
	return out, created, err
}

func newObject(resource string) runtime.Object { return kinds.Of(resource).New() }

// groupKind returns the kind of a resource, or a zero one if there is none.
func groupKind(resource string) schema.GroupKind {
	if k := kinds.Of(resource); k != nil {
		return k.WithKind(k.Name).GroupKind()
	}
	return schema.GroupKind{}
}
