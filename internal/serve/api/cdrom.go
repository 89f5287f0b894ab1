package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
)

// cdromREST is the endpoint of ISCSICdroms: an image is not deleted while a machine reads it.
type cdromREST struct {
	*endpoint
	// inUse returns the readers of an image; nil: there are none.
	inUse func(namespace, name string) []string
}

// Delete deletes an ISCSICdrom.
func (r *cdromREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.endpoint.Delete(ctx, name, r.unused(validate, options), options)
}

// DeleteCollection deletes the ISCSICdroms of a namespace, up to the first one in use.
func (r *cdromREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.endpoint.DeleteCollection(ctx, r.unused(validate, options), options, list)
}

// unused adds a check that no machine reads the image, unless the deletion is forced.
func (r *cdromREST) unused(validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	if r.inUse == nil || options != nil && options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0 {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if cdrom, ok := obj.(*v1.ISCSICdrom); ok {
			namespace := cmp.Or(cdrom.Namespace, request.NamespaceValue(ctx))
			if readers := r.inUse(namespace, cdrom.Name); len(readers) > 0 {
				return apierrors.NewConflict(v1.Resource(kinds.ISCSICdroms), cdrom.Name, fmt.Errorf(
					"it is being read by %s; to delete it all the same, do so with a grace period of 0 (kubectl delete --force)",
					shortList(readers)))
			}
		}
		if validate == nil {
			return nil
		}
		return validate(ctx, obj)
	}
}

// shortList returns the first names and counts the others.
func shortList(names []string) string {
	const few = 5
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
