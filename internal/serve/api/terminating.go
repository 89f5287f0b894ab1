package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

const (
	// terminationRetry is the time between two attempts to delete what is in a namespace.
	terminationRetry = time.Second
	// terminationTimeout bounds one attempt. The next one continues with what is left.
	terminationTimeout = time.Minute
	// emptyCheckTimeout bounds the check that a namespace is empty. No object is created
	// during the check.
	emptyCheckTimeout = 5 * time.Second
)

// terminator deletes the objects of deleted namespaces, and then the namespaces. Each server
// has one. What it does depends on the store alone, so a restarted server continues.
type terminator struct {
	*namespaces
	storage map[string]rest.Storage // the endpoints, by resource
	logger  *slog.Logger
	// deleted is called with a namespace that is gone; nil: nobody has to know.
	deleted func(namespace string)
}

// run follows the namespaces until the context ends.
func (t *terminator) run(ctx context.Context) {
	known, terminating := sets.New[string](), sets.New[string]()
	for ctx.Err() == nil {
		w, err := t.stores[kinds.Namespaces].Watch(ctx, "/"+kinds.Namespaces+"/",
			storage.ListOptions{Recursive: true, Predicate: storage.Everything})
		if err == nil {
			t.follow(ctx, w, known, terminating)
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(terminationRetry):
		}
		// A namespace may have been deleted between two watches.
		for _, name := range sets.List(known) {
			if known.Delete(name); ctx.Err() == nil {
				t.keepUsed(ctx, name)
			}
		}
	}
}

// follow handles the events of one watch. It keeps the names of all namespaces in known, and
// tries again to empty those that are in terminating.
func (t *terminator) follow(ctx context.Context, w watch.Interface, known, terminating sets.Set[string]) {
	retry := time.NewTicker(terminationRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.ResultChan():
			namespace, isNamespace := event.Object.(*v1.Namespace)
			switch {
			case !ok || event.Type == watch.Error:
				return
			case !isNamespace:
			case event.Type == watch.Deleted:
				known.Delete(namespace.Name)
				terminating.Delete(namespace.Name)
				if t.deleted != nil {
					t.deleted(namespace.Name)
				}
				t.keepUsed(ctx, namespace.Name)
			default:
				known.Insert(namespace.Name)
				if namespace.DeletionTimestamp != nil && !terminating.Has(namespace.Name) {
					terminating.Insert(namespace.Name)
					t.terminate(ctx, namespace.Name)
				}
			}
		case <-retry.C:
			for _, name := range sets.List(terminating) {
				t.terminate(ctx, name)
			}
		}
	}
}

// keepUsed creates a deleted namespace again if it contains an object: another server may
// have created one before it knew of the deletion. Events and boots alone do not count: those that
// were written during the deletion are deleted. The lock waits for such creations of this server.
func (t *terminator) keepUsed(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, emptyCheckTimeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	left, err := t.remaining(ctx, name)
	switch {
	case err != nil || left.objects() == 0:
	case left.objects() > left.count[kinds.Events]+left.count[kinds.Boots]:
		err = t.ensure(ctx, name)
	default:
		err = t.stores[kinds.Namespaces].Get(ctx, namespaceKey(name), storage.GetOptions{}, &v1.Namespace{})
		if storage.IsNotFound(err) {
			err = t.deleteContents(ctx, name, kinds.Events, kinds.Boots)
		}
	}
	if err != nil && !errors.Is(err, errTerminating) && ctx.Err() == nil {
		t.logger.Warn("cannot check whether a deleted namespace is empty", "namespace", name, "error", err)
	}
}

// terminate deletes the objects of a deleted namespace, writes into its status what is left,
// and deletes the namespace when nothing is.
func (t *terminator) terminate(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, terminationTimeout)
	defer cancel()
	namespace := &v1.Namespace{}
	err := t.stores[kinds.Namespaces].Get(ctx, namespaceKey(name), storage.GetOptions{}, namespace)
	if err == nil && namespace.DeletionTimestamp != nil {
		failure := t.deleteContents(ctx, name, kinds.Content()...)
		var left *contents
		if left, err = t.remaining(ctx, name); err == nil {
			if err = t.report(ctx, namespace, left, failure); err == nil && left.objects() == 0 {
				err = t.deleteEmpty(ctx, namespace)
			}
		}
	}
	if err != nil && !storage.IsNotFound(err) && ctx.Err() == nil {
		t.logger.Debug("cannot delete a namespace yet", "namespace", name, "error", err)
	}
}

// emptier is a store whose objects clients do not delete.
type emptier interface {
	// Empty removes the objects of a namespace.
	Empty(ctx context.Context, namespace string) error
}

// deleteContents orders the deletion of all objects of the resources in a namespace. It
// returns why objects cannot be deleted.
func (t *terminator) deleteContents(ctx context.Context, name string, resources ...string) error {
	ctx = request.WithNamespace(ctx, name)
	var failures []error
	for _, resource := range resources {
		if store, ok := t.stores[resource].(emptier); ok {
			if err := store.Empty(ctx, name); err != nil {
				failures = append(failures, err)
			}
			continue
		}
		list, err := t.list(ctx, resource, name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		endpoint := t.storage[resource].(rest.GracefulDeleter)
		_ = meta.EachListItem(list, func(obj runtime.Object) error {
			object := obj.(metav1.Object)
			if object.GetDeletionTimestamp() != nil || ctx.Err() != nil {
				return nil
			}
			_, _, err := endpoint.Delete(ctx, object.GetName(), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				failures = append(failures, err)
			}
			return nil
		})
	}
	const few = 5
	if len(failures) > few {
		failures = append(failures[:few], fmt.Errorf("and %d more", len(failures)-few))
	}
	return errors.Join(failures...)
}

// deleteEmpty deletes the namespace if it is empty and has no finalizer of a client. The lock
// waits for creations that began before the namespace was deleted.
func (t *terminator) deleteEmpty(ctx context.Context, namespace *v1.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, emptyCheckTimeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	left, err := t.remaining(ctx, namespace.Name)
	if err != nil || left.objects() > 0 {
		return err
	}
	hasNoFinalizers := func(_ context.Context, obj runtime.Object) error {
		if finalizers := obj.(*v1.Namespace).Finalizers; len(finalizers) > 0 {
			return fmt.Errorf("finalizers of the namespace remain: %s", strings.Join(finalizers, ", "))
		}
		return nil
	}
	return t.stores[kinds.Namespaces].Delete(ctx, namespaceKey(namespace.Name), &v1.Namespace{},
		storage.NewUIDPreconditions(string(namespace.UID)), hasNoFinalizers, nil, storage.DeleteOptions{})
}

// contents counts the objects of a namespace by resource, and by finalizer.
type contents struct{ count, finalizers map[string]int }

func (c *contents) objects() (sum int) {
	for _, n := range c.count {
		sum += n
	}
	return sum
}

// remaining returns what a namespace contains.
func (n *namespaces) remaining(ctx context.Context, namespace string) (*contents, error) {
	found := &contents{count: map[string]int{}, finalizers: map[string]int{}}
	for _, resource := range kinds.Content() {
		list, err := n.list(ctx, resource, namespace)
		if err != nil {
			return nil, err
		}
		if count := meta.LenList(list); count > 0 {
			found.count[resource] = count
		}
		_ = meta.EachListItem(list, func(obj runtime.Object) error {
			for _, finalizer := range obj.(metav1.Object).GetFinalizers() {
				found.finalizers[finalizer]++
			}
			return nil
		})
	}
	return found, nil
}

// report writes the conditions of a deletion, in the words of Kubernetes.
func (t *terminator) report(ctx context.Context, namespace *v1.Namespace, left *contents, failure error) error {
	conditions := []metav1.Condition{
		condition("NamespaceDeletionContentFailure", failure != nil, "ContentDeletionFailed", "ContentDeleted",
			fmt.Sprintf("Failed to delete all objects: %v", failure),
			"All content successfully deleted, may be waiting on finalization"),
		condition("NamespaceContentRemaining", len(left.count) > 0, "SomeResourcesRemain", "ContentRemoved",
			"Some resources are remaining: "+counted(left.count, "%s has %d resource instances"),
			"All content successfully removed"),
		condition("NamespaceFinalizersRemaining", len(left.finalizers) > 0, "SomeFinalizersRemain",
			"ContentHasNoFinalizers", "Some content in the namespace has finalizers remaining: "+
				counted(left.finalizers, "%s in %d resource instances"),
			"All content-preserving finalizers finished"),
	}
	update := func(updated *v1.Namespace) {
		updated.Status.Phase = v1.NamespaceTerminating
		for _, c := range conditions {
			meta.SetStatusCondition(&updated.Status.Conditions, c)
		}
	}
	after := namespace.DeepCopy()
	update(after)
	if len(left.count) == 0 || apiequality.Semantic.DeepEqual(after.Status, namespace.Status) {
		return nil // an empty namespace is deleted at once
	}
	return amend(ctx, t.stores[kinds.Namespaces], namespaceKey(namespace.Name), &v1.Namespace{},
		storage.NewUIDPreconditions(string(namespace.UID)), update)
}

// condition returns a condition with the first reason and message if it is true, and else
// with the second ones.
func condition(typ string, isTrue bool, reason, otherReason, message, otherMessage string) metav1.Condition {
	if isTrue {
		return metav1.Condition{Type: typ, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	return metav1.Condition{Type: typ, Status: metav1.ConditionFalse, Reason: otherReason, Message: otherMessage}
}

// counted writes numbers by name, in the order of the names.
func counted(numbers map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf(format, name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}
