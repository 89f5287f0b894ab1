package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/report"
)

// describeDocument writes a summary of a valid document into the status.
func describeDocument(release *v1.StreamRelease) {
	doc, err := coreos.Parse([]byte(release.Spec.Document))
	if err != nil {
		return
	}
	status := v1.StreamReleaseStatus{
		Current:      release.Status.Current,
		DocumentHash: doc.Hash, DocumentSize: int64(len(doc.Raw)), ObservedGeneration: release.Generation,
	}
	if !doc.LastModified.IsZero() {
		at := metav1.NewTime(doc.LastModified.Truncate(time.Second))
		status.LastModified = &at
	}
	for _, name := range doc.Architectures() {
		status.Architectures = append(status.Architectures, v1.StreamArchitecture{Name: name, Artifacts: doc.Artifacts(name)})
	}
	release.Status = status
}

var streamTable = &table[*v1.StreamRelease]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The release's name."),
		text("Stream", "The stream that it is of."),
		text("Release", "Its version."),
		{Name: "Current", Type: "boolean",
			Description: "Whether it is the release of its stream that is shown and followed."},
		text("Modified", "Time since its document was made."),
		text("Architectures", "What it has images for."),
		text("Age", "Time since it was imported."),
		wide(integer("Artifacts", "The images in its document.")),
		wide(text("Size", "The size of its document.")),
		wide(text("Hash", "The beginning of the hash of its document.")),
		wide(text("Ignition", "The newest Ignition spec that it was recorded to read.")),
	},
	row: func(r *v1.StreamRelease, now time.Time) []any {
		var names []string
		artifacts := 0
		for _, arch := range r.Status.Architectures {
			names = append(names, arch.Name)
			artifacts += len(arch.Artifacts)
		}
		return []any{r.Name, r.Spec.Stream, r.Spec.Release, r.Status.Current, age(r.Status.LastModified, now),
			strings.Join(names, ","), age(&r.CreationTimestamp, now), int64(artifacts),
			report.Size(r.Status.DocumentSize), compile.ShortHash(r.Status.DocumentHash), r.Spec.MaxIgnition}
	},
}

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
