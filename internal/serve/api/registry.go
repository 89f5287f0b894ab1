package api

import (
	"context"
	"fmt"
	"math"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/kvstore"
)

// eventTTL is how long an event lives, in seconds.
const eventTTL = 24 * 60 * 60

// stores returns the library our stores where it would open an etcd.
type stores map[string]storage.Interface

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s stores) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	store, ok := s[resource.Resource]
	if !ok {
		return generic.RESTOptions{}, fmt.Errorf("there is no store for %s", resource)
	}
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{
			Config: storagebackend.Config{
				Codec:           codecs.LegacyCodec(v1.SchemeGroupVersion),
				EncodeVersioner: v1.SchemeGroupVersion,
			},
			GroupResource: resource,
		},
		ResourcePrefix:          resource.Resource,
		DeleteCollectionWorkers: 4,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return store, func() {}, nil
		},
	}, nil
}

// newStore makes the registry of a kind.
func newStore[T object](all stores, resource, singular string, main *strategy[T],
	columns rest.TableConvertor) (*registry.Store, error) {
	sample := newObject(resource)
	gvks, _, err := scheme.ObjectKinds(sample)
	if err != nil {
		return nil, err
	}
	s := &registry.Store{
		NewFunc:                   func() runtime.Object { return newObject(resource) },
		NewListFunc:               func() runtime.Object { return newList(resource) },
		DefaultQualifiedResource:  v1.Resource(resource),
		SingularQualifiedResource: v1.Resource(singular),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		TableConvertor:            columns,
		KeyRootFunc: func(ctx context.Context) string {
			return registry.NamespaceKeyRootFunc(ctx, "/"+resource)
		},
		KeyFunc: func(ctx context.Context, name string) (string, error) {
			if err := checkName(gvks[0].GroupKind(), name); err != nil {
				return "", err
			}
			if main.namespaced {
				return registry.NamespaceKeyFunc(ctx, "/"+resource, name)
			}
			return registry.NoNamespaceKeyFunc(ctx, "/"+resource, name)
		},
	}
	if !main.namespaced {
		s.KeyRootFunc = func(context.Context) string { return "/" + resource }
	}
	opts := &generic.StoreOptions{RESTOptions: all}
	if resource == kinds.Events {
		opts.AttrFunc = eventAttrs
		s.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return eventTTL, nil }
	}
	return s, s.CompleteWithOptions(opts)
}

// checkName refuses a name that no object can have before it becomes a key.
func checkName(kind schema.GroupKind, name string) error {
	msgs := apivalidation.NameIsDNSSubdomain(name, false)
	if len(msgs) == 0 {
		return nil
	}
	shown := name
	if len(shown) > 64 {
		shown = shown[:64] + "…"
	}
	return apierrors.NewInvalid(kind, shown, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "name"), shown, strings.Join(msgs, "; ")),
	})
}

// eventAttrs are what events are selected by.
func eventAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	event, ok := obj.(*v1.Event)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no Event", obj)
	}
	about := &event.InvolvedObject
	component := event.Source.Component
	if component == "" {
		component = event.ReportingController
	}
	return event.Labels, fields.Set{
		"metadata.name":                  event.Name,
		"metadata.namespace":             event.Namespace,
		"involvedObject.kind":            about.Kind,
		"involvedObject.namespace":       about.Namespace,
		"involvedObject.name":            about.Name,
		"involvedObject.uid":             about.UID,
		"involvedObject.apiVersion":      about.APIVersion,
		"involvedObject.resourceVersion": about.ResourceVersion,
		"involvedObject.fieldPath":       about.FieldPath,
		"reason":                         event.Reason,
		"reportingComponent":             event.ReportingController,
		"source":                         component,
		"type":                           event.Type,
	}, nil
}

// named returns a registry the short names and categories that discovery tells.
type named struct {
	*registry.Store
	short []string
}

func (n *named) ShortNames() []string { return n.short }
func (n *named) Categories() []string { return []string{"all"} }

func (n *named) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	out, created, err := n.Store.Update(ctx, name, info, create, update, forceCreate, options)
	return out, created, clientsFault(err)
}

// DeleteCollection deletes all objects of one list. The library would list page by
// page while its deletes are under way, and these move the window, in which a list
// can be continued, past the end of a page: beyond its 10,000 changes the next page
// is 410. A list without pages never needs the window.
func (n *named) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	list *metainternalversion.ListOptions) (runtime.Object, error) {
	return n.Store.DeleteCollection(ctx, validate, options, inOnePage(list))
}

// inOnePage asks for all objects, unless the caller has asked for pages.
func inOnePage(list *metainternalversion.ListOptions) *metainternalversion.ListOptions {
	if list == nil {
		list = &metainternalversion.ListOptions{}
	}
	if list.Limit != 0 || list.Continue != "" {
		return list
	}
	list = list.DeepCopy()
	list.Limit = math.MaxInt64
	return list
}

// listed is named for kinds that kubectl get all does not show.
type listed struct{ named }

func (*listed) Categories() []string { return nil }

// clientsFault makes a bad request of what the library takes for an internal
// error: server-side apply of a field that the kind does not have.
func clientsFault(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "failed to create typed patch object") {
		return apierrors.NewBadRequest(err.Error())
	}
	return err
}

// eventREST is the endpoint of events, which kubectl get all does not show.
type eventREST struct{ *registry.Store }

func (*eventREST) ShortNames() []string { return []string{"ev"} }

// DeleteCollection is that of named.
func (e *eventREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return e.Store.DeleteCollection(ctx, validate, options, inOnePage(list))
}

// statusREST is the status subresource of a registry.
type statusREST struct{ store *registry.Store }

var _ rest.Patcher = &statusREST{}

func newStatus[T object](main *registry.Store, status *strategy[T]) *statusREST {
	store := *main
	store.UpdateStrategy = status
	store.ResetFieldsStrategy = status
	return &statusREST{store: &store}
}

func (r *statusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the main endpoint owns the store.
func (r *statusREST) Destroy() {}

func (r *statusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

func (r *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

func (r *statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *statusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// kindsByResource saves the hot path from making the list again.
var kindsByResource = func() map[string]kvstore.Kind {
	out := map[string]kvstore.Kind{}
	for _, kind := range kinds.All() {
		out[kind.Resource] = kind
	}
	return out
}()

func newObject(resource string) runtime.Object { return kindsByResource[resource].New() }
func newList(resource string) runtime.Object   { return kindsByResource[resource].NewList() }

func listLen(list runtime.Object) int { return meta.LenList(list) }
