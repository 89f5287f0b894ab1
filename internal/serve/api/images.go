package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

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

// maxReaders bounds the readers of an image that are named.
const maxReaders = 5

// spareInUse refuses to delete an ISCSICdrom while a machine reads it, unless the deletion is forced.
func (o *Options) spareInUse(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) error {
	cdrom, ok := obj.(*v1.ISCSICdrom)
	if !ok || o.InUse == nil || options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0 {
		return nil
	}
	readers := o.InUse(cmp.Or(cdrom.Namespace, request.NamespaceValue(ctx)), cdrom.Name)
	if len(readers) == 0 {
		return nil
	}
	return apierrors.NewConflict(v1.Resource(kinds.ISCSICdroms), cdrom.Name, fmt.Errorf(
		"it is being read by %s; to delete it all the same, do so with a grace period of 0 (kubectl delete --force)",
		first(readers, maxReaders, len(readers))))
}
