package api

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
)

// rooms makes namespaces by first use and lets them be deleted when empty. The
// lock keeps the two apart: objects are written under its read side.
type rooms struct {
	mu         sync.RWMutex
	namespaces storage.Interface
	// contents are the kinds that make a namespace not empty, by resource.
	contents map[string]storage.Interface
	events   storage.Interface
}

// ensure makes the namespace where it is missing.
func (r *rooms) ensure(ctx context.Context, name string) error {
	key := "/" + kinds.Namespaces + "/" + name
	// What this server knows is enough: a namespace that is made twice is made once.
	err := r.namespaces.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, &v1.Namespace{})
	if !storage.IsNotFound(err) {
		return err
	}
	namespace := &v1.Namespace{ObjectMeta: newObjectMeta(name), Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}}
	if err := r.namespaces.Create(ctx, key, namespace, &v1.Namespace{}, 0); err != nil && !storage.IsExist(err) {
		return err
	}
	return nil
}

// keepDefault makes the namespace "default" as soon as the store answers.
func (r *rooms) keepDefault(ctx context.Context, logger *slog.Logger) {
	for {
		err := r.ensure(ctx, v1.NamespaceDefault)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.Debug("the namespace default is not there yet", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// inhabitants says what is in a namespace: "2 baremetalhosts, 1 ignitionconfigs";
// "" where there is nothing.
func (r *rooms) inhabitants(ctx context.Context, namespace string) (string, error) {
	var found []string
	for _, resource := range []string{kinds.BareMetalHosts, kinds.IgnitionConfigs, kinds.ISCSICdroms, kinds.ConfigMaps} {
		list := newList(resource)
		opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr,
		}}
		if err := r.contents[resource].GetList(ctx, "/"+resource+"/"+namespace, opts, list); err != nil {
			return "", err
		}
		if n := listLen(list); n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, resource))
		}
	}
	return strings.Join(found, ", "), nil
}

// clear deletes the events of a namespace that is gone. They would expire anyway.
func (r *rooms) clear(ctx context.Context, namespace string) {
	var list v1.EventList
	opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr,
	}}
	if err := r.events.GetList(ctx, "/"+kinds.Events+"/"+namespace, opts, &list); err != nil {
		return
	}
	for i := range list.Items {
		key := "/" + kinds.Events + "/" + namespace + "/" + list.Items[i].Name
		// A failure is nobody's concern: see above.
		_ = r.events.Delete(ctx, key, &v1.Event{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	}
}

// inRooms is a store of namespaced objects that makes their namespace as it
// creates them.
type inRooms struct {
	storage.Interface
	rooms *rooms
}

func (s *inRooms) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s.rooms.mu.RLock()
	defer s.rooms.mu.RUnlock()
	if err := s.rooms.ensure(ctx, namespaceOf(key)); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate may create too, for server-side apply.
func (s *inRooms) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	if !ignoreNotFound {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, false, preconditions, tryUpdate, cached)
	}
	s.rooms.mu.RLock()
	defer s.rooms.mu.RUnlock()
	return s.Interface.GuaranteedUpdate(ctx, key, destination, true, preconditions, func(input runtime.Object,
		res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := tryUpdate(input, res)
		if err == nil && res.ResourceVersion == 0 {
			err = s.rooms.ensure(ctx, namespaceOf(key))
		}
		return obj, ttl, err
	}, cached)
}

// namespaceOf is the namespace in "/<resource>/<namespace>/<name>".
func namespaceOf(key string) string {
	parts := strings.SplitN(key, "/", 4)
	return parts[2]
}

// newObjectMeta is the metadata of an object that the server makes itself.
func newObjectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: newUID(), CreationTimestamp: metav1.Now().Rfc3339Copy()}
}

func newUID() types.UID { return uuid.NewUUID() }

// namespaceREST is the endpoint of namespaces. It has no deletion of collections,
// and deletes a namespace only when it is empty.
type namespaceREST struct {
	store *registry.Store
	rooms *rooms
}

var (
	_ rest.Creater         = &namespaceREST{}
	_ rest.Lister          = &namespaceREST{}
	_ rest.Watcher         = &namespaceREST{}
	_ rest.CreaterUpdater  = &namespaceREST{}
	_ rest.GracefulDeleter = &namespaceREST{}
)

func (r *namespaceREST) New() runtime.Object     { return r.store.New() }
func (r *namespaceREST) NewList() runtime.Object { return r.store.NewList() }
func (r *namespaceREST) Destroy()                { r.store.Destroy() }
func (r *namespaceREST) NamespaceScoped() bool   { return false }
func (r *namespaceREST) GetSingularName() string { return r.store.GetSingularName() }
func (r *namespaceREST) ShortNames() []string    { return []string{"ns"} }

func (r *namespaceREST) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	return r.store.Create(ctx, obj, validation, options)
}

func (r *namespaceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, forceCreate, options)
}

func (r *namespaceREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

func (r *namespaceREST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.store.List(ctx, options)
}

func (r *namespaceREST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	return r.store.Watch(ctx, options)
}

func (r *namespaceREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

func (r *namespaceREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *namespaceREST) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if name == v1.NamespaceDefault {
		return nil, false, apierrors.NewForbidden(v1.Resource(kinds.Namespaces), name,
			fmt.Errorf("this namespace may not be deleted"))
	}
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	whenEmpty := func(ctx context.Context, obj runtime.Object) error {
		inhabitants, err := r.rooms.inhabitants(ctx, name)
		if err != nil {
			return err
		}
		if inhabitants != "" {
			return apierrors.NewConflict(v1.Resource(kinds.Namespaces), name,
				fmt.Errorf("it is not empty: delete its %s first", inhabitants))
		}
		if validation != nil {
			return validation(ctx, obj)
		}
		return nil
	}
	out, gone, err := r.store.Delete(ctx, name, whenEmpty, options)
	if err == nil && gone && len(options.DryRun) == 0 {
		r.rooms.clear(ctx, name)
	}
	return out, gone, err
}
