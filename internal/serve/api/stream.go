package api

import (
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/report"
)

// ValidateStreamRelease checks a release and its document.
func ValidateStreamRelease(release *v1.StreamRelease) field.ErrorList {
	return append(v1.ValidateStreamRelease(release), validateDocument(release)...)
}

// validateDocument finds what is wrong with a document, each with its path in it.
func validateDocument(release *v1.StreamRelease) field.ErrorList {
	if release.Spec.Document == "" {
		return nil // said already
	}
	_, err := coreos.Parse([]byte(release.Spec.Document))
	var problems coreos.Problems
	if !errors.As(err, &problems) {
		return nil
	}
	var errs field.ErrorList
	for i, problem := range problems {
		if i == maxWarnings {
			break
		}
		errs = append(errs, field.Invalid(field.NewPath("spec", "document"), field.OmitValueType{}, problem.String()))
	}
	return errs
}

// describeDocument writes into the status what a document lists. Of one that is
// not valid nothing is said: it is refused.
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
	columns: []column{
		{name: "Name", description: "The release's name."},
		{name: "Stream", description: "The stream that it is of."},
		{name: "Release", description: "Its version."},
		{name: "Current", kind: "boolean",
			description: "Whether it is the release of its stream that is shown and followed."},
		{name: "Modified", description: "Time since its document was made."},
		{name: "Architectures", description: "What it has images for."},
		{name: "Age", description: "Time since it was imported."},
		{name: "Artifacts", kind: "integer", description: "The images in its document.", wide: true},
		{name: "Size", description: "The size of its document.", wide: true},
		{name: "Hash", description: "The beginning of the hash of its document.", wide: true},
		{name: "Ignition", description: "The newest Ignition spec that it was recorded to read.", wide: true},
	},
	row: func(r *v1.StreamRelease, now time.Time) []any {
		modified := ""
		if r.Status.LastModified != nil {
			modified = age(*r.Status.LastModified, now)
		}
		var names []string
		artifacts := 0
		for _, arch := range r.Status.Architectures {
			names = append(names, arch.Name)
			artifacts += len(arch.Artifacts)
		}
		return []any{r.Name, r.Spec.Stream, r.Spec.Release, r.Status.Current, modified, strings.Join(names, ","),
			age(r.CreationTimestamp, now), int64(artifacts), report.Size(r.Status.DocumentSize),
			compile.ShortHash(r.Status.DocumentHash), r.Spec.MaxIgnition}
	},
}
