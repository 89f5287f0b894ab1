package kinds

import (
	"errors"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
)

// byResource has the kinds by their resources.
var byResource = func() map[string]*Kind {
	kinds := map[string]*Kind{}
	for _, k := range all {
		kinds[k.Resource] = k
	}
	return kinds
}()

// object is a pointer to a K.
type object[K any] interface {
	*K
	runtime.Object
}

// describe completes a description with what the Go types of an object and a list say, and with two functions, which
// may be nil.
func describe[K, L any, PK object[K], PL object[L]](
	k Kind, validate func(PK) field.ErrorList, setDefaults func(PK),
) *Kind {
	k.Name = reflect.TypeFor[K]().Name()
	k.Singular = strings.ToLower(k.Name)
	if k.Empty() {
		k.GroupVersion = v1.SchemeGroupVersion
	}
	k.New = func() runtime.Object { return PK(new(K)) }
	k.NewList = func() runtime.Object { return PL(new(L)) }
	if validate != nil {
		k.Validate = func(obj runtime.Object) field.ErrorList { return validate(obj.(PK)) }
	}
	if setDefaults != nil {
		k.Default = func(obj runtime.Object) { setDefaults(obj.(PK)) }
	}
	return &k
}

// Check returns the errors of an object from a manifest, in which it sets the defaults.
func (k *Kind) Check(obj runtime.Object) field.ErrorList {
	if !k.Namespaced {
		obj.(metav1.Object).SetNamespace("") // as kubectl does
	}
	if k.Default != nil {
		k.Default(obj)
	}
	return k.Validate(obj)
}

// GroupResource returns the resource with its API group, for errors.
func (k *Kind) GroupResource() schema.GroupResource {
	return k.WithResource(k.Resource).GroupResource()
}

// maxProblems bounds the problems of a document that are told.
const maxProblems = 10

// validateStreamRelease checks a release and its document.
func validateStreamRelease(release *v1.StreamRelease) field.ErrorList {
	errs := v1.ValidateStreamRelease(release)
	if release.Spec.Document == "" {
		return errs // which says that it is missing
	}
	_, err := coreos.Parse([]byte(release.Spec.Document))
	var problems coreos.Problems
	errors.As(err, &problems)
	for _, problem := range problems[:min(len(problems), maxProblems)] {
		errs = append(errs, field.Invalid(field.NewPath("spec", "document"), field.OmitValueType{}, problem.String()))
	}
	return errs
}
