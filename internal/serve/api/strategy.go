package api

import (
	"context"
	"slices"

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
}

// strategy is how objects of one kind are prepared and checked on their way into
// the store, in the order create or update, validate, complete, warn. Every function but the
// validations may be nil.
type strategy[T object] struct {
	namespaced bool
	// create and update make the object complete: what the server keeps (status,
	// generation) is taken from old, never from the client.
	create func(ctx context.Context, obj T)
	update func(ctx context.Context, obj, old T)

	validate       func(obj T) field.ErrorList
	validateUpdate func(obj, old T) field.ErrorList
	// complete derives what follows from a valid object, of which old is what is
	// replaced; nil: nothing.
	complete func(ctx context.Context, obj, old T)
	// warn returns sentences that the client is shown beside the answer.
	warn func(obj T) []string
	// reset names the fields that this endpoint never takes from a client, for
	// server-side apply.
	reset *fieldpath.Set
}

// resetStatus and resetSpec are what the main endpoint and the status endpoint
// do not take.
var (
	resetStatus = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	resetSpec   = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
)

func (s *strategy[T]) ObjectKinds(obj runtime.Object) ([]runtimeKind, bool, error) {
	return scheme.ObjectKinds(obj)
}
func (s *strategy[T]) Recognizes(kind runtimeKind) bool { return scheme.Recognizes(kind) }
func (s *strategy[T]) GenerateName(base string) string {
	return names.SimpleNameGenerator.GenerateName(base)
}
func (s *strategy[T]) NamespaceScoped() bool                         { return s.namespaced }
func (s *strategy[T]) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s *strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return true }
func (s *strategy[T]) Canonicalize(runtime.Object)                   {}

func (s *strategy[T]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	noteName(ctx, obj.(T).GetName())
	if s.create != nil {
		s.create(ctx, obj.(T))
	}
}

func (s *strategy[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	if s.update != nil {
		s.update(ctx, obj.(T), old.(T))
	}
}

func (s *strategy[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.validate(obj.(T))
	if len(errs) == 0 && s.complete != nil {
		var none T
		s.complete(ctx, obj.(T), none)
	}
	return errs
}

func (s *strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validateUpdate(obj.(T), old.(T))
	if len(errs) == 0 && s.complete != nil {
		s.complete(ctx, obj.(T), old.(T))
	}
	return errs
}

func (s *strategy[T]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if s.warn == nil {
		return nil
	}
	return s.warn(obj.(T))
}

func (s *strategy[T]) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return s.WarningsOnCreate(context.Background(), obj)
}

// ValidateDeclaratively is the library's last word on a list of errors. Here it
// corrects what the library itself has found: the annotation in which kubectl keeps
// what it applied may be as large as a config, nothing is said twice, and a few
// errors are enough.
func (s *strategy[T]) ValidateDeclaratively(_ context.Context, obj, _ runtime.Object, errs field.ErrorList,
	_ operation.Type, _ rest.DeclarativeValidationConfig) field.ErrorList {
	seen := map[string]bool{}
	return few(slices.DeleteFunc(v1.FilterAnnotationSize(obj.(T).GetAnnotations(), errs), func(err *field.Error) bool {
		text := err.Error()
		was := seen[text]
		seen[text] = true
		return was
	}))
}

// DeclarativeValidationConfig is empty: there are no generated validations.
func (s *strategy[T]) DeclarativeValidationConfig(context.Context, runtime.Object,
	runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{}
}

// GetResetFields tells server-side apply which fields are not the client's.
func (s *strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.reset == nil {
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v1.SchemeGroupVersion.String()): s.reset}
}

// keepMeta makes the metadata of a status update that of old, but for the version
// that it was made from and the record of who set what.
func keepMeta(meta, old *metav1.ObjectMeta) {
	version, managed := meta.ResourceVersion, meta.ManagedFields
	*meta = *old.DeepCopy()
	meta.ResourceVersion, meta.ManagedFields = version, managed
}
