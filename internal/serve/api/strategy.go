package api

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v1 "glowplug/api/v1"
)

// object is a pointer to a kind.
type object interface {
	runtime.Object
	metav1.Object
	metav1.ObjectMetaAccessor
}

// strategy is how objects of one kind are prepared and checked on their way into the
// store, in the order keep, validate, complete, warn. Every function may be nil.
type strategy[T object] struct {
	// ObjectTyper and NameGenerator are those of all kinds.
	runtime.ObjectTyper
	names.NameGenerator

	namespaced bool
	// initial has the status of a new object.
	initial T
	// keep sets the fields of obj that this endpoint does not accept from a client to
	// those of old, which is the stored object, or initial.
	keep func(obj, old T)
	// spec returns the part of an object whose changes metadata.generation counts; nil: the
	// kind has no generation.
	spec func(obj T) any
	// keepMeta is true for the status endpoint, which accepts no metadata.
	keepMeta bool

	validate func(obj T) field.ErrorList
	// immutable checks that a new version changes no field that is immutable.
	immutable func(obj, old T) field.ErrorList
	// complete derives fields of a valid object whose spec is new. It replaces old, which
	// is nil for a new object. It returns errors that only this shows.
	complete func(ctx context.Context, obj, old T) field.ErrorList
	// warn returns the warnings of the answer. It is not called for a dry run whose change is collected: its warnings
	// depend on all objects of the change set.
	warn func(change) []string
	// reset are the fields that keep sets, for server-side apply.
	reset *fieldpath.Set
}

func (s *strategy[T]) NamespaceScoped() bool                         { return s.namespaced }
func (s *strategy[T]) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s *strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return true }
func (s *strategy[T]) Canonicalize(runtime.Object)                   {}

func (s *strategy[T]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	created := obj.(T)
	addTrace(ctx, func(t *traceData) { t.name = created.GetName() }) // the path does not contain it
	if s.keep != nil {
		s.keep(created, s.initial)
	}
	if s.spec != nil {
		created.SetGeneration(1)
	}
}

func (s *strategy[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	updated, stored := obj.(T), old.(T)
	if s.keep != nil {
		s.keep(updated, stored)
	}
	a := attemptOf(ctx)
	isBlind := a != nil && a.isBlind // whether the spec is the same would say that a guess is right
	if isBlind || s.spec != nil && !apiequality.Semantic.DeepEqual(s.spec(updated), s.spec(stored)) {
		updated.SetGeneration(stored.GetGeneration() + 1)
	}
	if s.keepMeta {
		// The version that the update was made from and the managers of fields are the request's.
		meta := updated.GetObjectMeta().(*metav1.ObjectMeta)
		version, managers := meta.ResourceVersion, meta.ManagedFields
		stored.GetObjectMeta().(*metav1.ObjectMeta).DeepCopyInto(meta)
		meta.ResourceVersion, meta.ManagedFields = version, managers
	}
}

func (s *strategy[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if s.validate != nil {
		errs = s.validate(obj.(T))
	}
	if len(errs) == 0 && s.complete != nil {
		var none T
		errs = s.complete(ctx, obj.(T), none)
	}
	return errs
}

// ValidateUpdate leaves the rules for changes of metadata to the library. The status
// endpoint has no validate: the spec that is stored is valid.
func (s *strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	updated, stored := obj.(T), old.(T)
	var errs field.ErrorList
	if s.immutable != nil {
		errs = s.immutable(updated, stored)
	}
	if s.validate != nil {
		errs = append(errs, s.validate(updated)...)
	}
	if len(errs) == 0 && s.complete != nil && updated.GetGeneration() != stored.GetGeneration() {
		errs = s.complete(ctx, updated, stored)
	}
	return errs
}

// annotationWarnings returns a sentence for each misspelled annotation of the server.
func annotationWarnings(obj metav1.Object) (sentences []string) {
	for _, key := range v1.UnknownAnnotations(obj.GetAnnotations()) {
		sentences = append(sentences, "metadata.annotations: "+key+" has no effect; "+v1.AnnotationsHint)
	}
	return sentences
}

func (s *strategy[T]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	var none T
	return s.warnings(ctx, change{now: obj.(T)}, obj.(T), none)
}

func (s *strategy[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	written := change{old: old.(T), now: obj.(T)}
	if written.now.GetDeletionTimestamp() != nil && len(written.now.GetFinalizers()) == 0 {
		written.now = nil // the last finalizer is removed, and the object with it
	}
	return s.warnings(ctx, written, obj.(T), old.(T))
}

// warnings returns the warnings of a write, and notes it.
func (s *strategy[T]) warnings(ctx context.Context, written change, obj, old T) []string {
	note(ctx, written)
	warnings := annotationWarnings(obj)
	if s.warn != nil && !isCollected(ctx) {
		warnings = append(warnings, s.warn(change{old: old, now: obj})...)
	}
	return warnings
}

// ValidateDeclaratively is the last call before the library answers with a list of errors.
// It corrects those of the library: the annotation in which kubectl keeps the applied object
// may be as large as a config, each error appears once, and the list is bounded.
func (s *strategy[T]) ValidateDeclaratively(_ context.Context, obj, _ runtime.Object, errs field.ErrorList,
	_ operation.Type, _ rest.DeclarativeValidationConfig) field.ErrorList {
	seen := map[string]bool{}
	return boundErrors(slices.DeleteFunc(v1.FilterAnnotationSize(obj.(T).GetAnnotations(), errs),
		func(err *field.Error) bool {
			text := err.Error()
			duplicate := seen[text]
			seen[text] = true
			return duplicate
		}))
}

// DeclarativeValidationConfig is empty: there are no generated validations.
func (s *strategy[T]) DeclarativeValidationConfig(context.Context, runtime.Object,
	runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{}
}

// GetResetFields returns the fields that server-side apply ignores.
func (s *strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.reset == nil {
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v1.SchemeGroupVersion.String()): s.reset}
}
