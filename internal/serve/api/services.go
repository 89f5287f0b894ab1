package api

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
)

// noServices is the endpoint of Services, of which there are none. kubectl cluster-info
// lists them, and fails where the API does not have the kind.
type noServices struct{}

// addServiceTypes registers Services as objects that have metadata alone.
func addServiceTypes(s *runtime.Scheme, gv schema.GroupVersion) {
	s.AddKnownTypeWithName(gv.WithKind("Service"), &metav1.PartialObjectMetadata{})
	s.AddKnownTypeWithName(gv.WithKind("ServiceList"), &metav1.PartialObjectMetadataList{})
}

func (noServices) New() runtime.Object     { return &metav1.PartialObjectMetadata{} }
func (noServices) NewList() runtime.Object { return &metav1.PartialObjectMetadataList{} }
func (noServices) Destroy()                {}
func (noServices) NamespaceScoped() bool   { return true }
func (noServices) GetSingularName() string { return "service" }
func (noServices) ShortNames() []string    { return []string{"svc"} }

// GroupVersionKind returns the kind, which New does not tell.
func (noServices) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return v1.SchemeGroupVersion.WithKind("Service")
}

// List returns an empty list.
func (noServices) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}, nil
}

// ConvertToTable makes a table of names.
func (noServices) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(v1.Resource("services")).ConvertToTable(ctx, obj, options)
}
