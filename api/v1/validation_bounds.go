package v1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of an object. Lists and maps that are longer than any machine needs are refused
// by their length, since validating a hundred thousand addresses takes seconds.
const (
	// MaxItems bounds the lists of a spec, except spec.layers (MaxLayers).
	MaxItems = 1000
	// MaxKeys bounds maps (labels, annotations, the data of a ConfigMap) and the lists in
	// metadata: finalizers and owner references.
	MaxKeys = 256
)

// tooMany returns an error if a list or a map of n entries has more than max.
func tooMany(path *field.Path, n, max int) field.ErrorList {
	if n <= max {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, max)}
}

// boundMeta checks the lengths of the lists and maps in metadata, before their contents
// are validated.
func boundMeta(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := tooMany(path.Child("labels"), len(meta.Labels), MaxKeys)
	errs = append(errs, tooMany(path.Child("annotations"), len(meta.Annotations), MaxKeys)...)
	errs = append(errs, tooMany(path.Child("finalizers"), len(meta.Finalizers), MaxKeys)...)
	return append(errs, tooMany(path.Child("ownerReferences"), len(meta.OwnerReferences), MaxKeys)...)
}

// validateMeta checks the metadata of an object: its lengths first, then its contents.
func validateMeta(meta *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	path := field.NewPath("metadata")
	if errs := boundMeta(meta, path); len(errs) > 0 {
		return errs
	}
	return FilterAnnotationSize(meta.Annotations, apivalidation.ValidateObjectMeta(meta, namespaced, name, path))
}
