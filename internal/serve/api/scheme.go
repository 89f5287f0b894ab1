package api

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
)

// scheme holds every kind twice: as v1 and as the library's internal version,
// which is the same Go type, so that nothing is ever converted.
var (
	scheme         = newScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
	jsonAndYAML    = withoutProtobuf{serializer.NewCodecFactory(scheme,
		serializer.WithStreamingCollectionEncodingToJSON())}
)

func newScheme() *runtime.Scheme {
	s := publicScheme()
	v1.AddKnownTypes(s, schema.GroupVersion{Group: v1.GroupName, Version: runtime.APIVersionInternal})
	addServiceTypes(s, schema.GroupVersion{Group: v1.GroupName, Version: runtime.APIVersionInternal})
	v1.AddDefaultsToScheme(s)
	addRBACDefaults(s)
	utilruntime.Must(s.SetVersionPriority(v1.SchemeGroupVersion))
	for _, other := range otherGroups {
		s.AddKnownTypes(schema.GroupVersion{Group: other.Group, Version: runtime.APIVersionInternal}, other.types...)
		utilruntime.Must(s.SetVersionPriority(other.GroupVersion))
	}
	for kind, convert := range fieldLabels {
		utilruntime.Must(s.AddFieldLabelConversionFunc(v1.SchemeGroupVersion.WithKind(kind), convert))
	}
	return s
}

// publicScheme holds the kinds as clients see them; the names in OpenAPI
// documents are made from it.
func publicScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(s))
	addServiceTypes(s, v1.SchemeGroupVersion)
	for _, other := range otherGroups {
		s.AddKnownTypes(other.GroupVersion, other.types...)
		metav1.AddToGroupVersion(s, other.GroupVersion)
	}
	return s
}

// otherGroups are the groups beside the core group, with their kinds.
var otherGroups = []struct {
	schema.GroupVersion
	types []runtime.Object
}{
	{authorizationv1.SchemeGroupVersion, []runtime.Object{
		&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.SelfSubjectRulesReview{},
	}},
	{authenticationv1.SchemeGroupVersion, []runtime.Object{
		&authenticationv1.SelfSubjectReview{}, &authenticationv1.TokenRequest{},
	}},
	{rbacv1.SchemeGroupVersion, []runtime.Object{
		&rbacv1.Role{}, &rbacv1.RoleList{}, &rbacv1.RoleBinding{}, &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRoleBindingList{},
	}},
}

// addRBACDefaults registers the defaults of bindings, which decoders of the scheme then set.
func addRBACDefaults(s *runtime.Scheme) {
	s.AddTypeDefaultingFunc(&rbacv1.RoleBinding{}, func(obj any) {
		b := obj.(*rbacv1.RoleBinding)
		rbac.SetDefaults(&b.RoleRef, b.Subjects)
	})
	s.AddTypeDefaultingFunc(&rbacv1.ClusterRoleBinding{}, func(obj any) {
		b := obj.(*rbacv1.ClusterRoleBinding)
		rbac.SetDefaults(&b.RoleRef, b.Subjects)
	})
}

// withoutProtobuf leaves out the encodings that our types do not have: a client
// that would rather have protobuf is given JSON.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()),
		func(info runtime.SerializerInfo) bool {
			return info.MediaType != runtime.ContentTypeJSON && info.MediaType != runtime.ContentTypeYAML
		})
}

// typedProtobuf decodes the bodies of typed clients of Kubernetes: namespaces, events,
// ServiceAccounts, requests for tokens, roles, bindings and the options of requests.
var typedProtobuf = func() *protobuf.Serializer {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(rbacv1.AddToScheme(s))
	utilruntime.Must(authenticationv1.AddToScheme(s))
	return protobuf.NewSerializer(s, s)
}()

// withProtobufBodies converts protobuf bodies to JSON, since the server accepts no protobuf: kubectl
// create namespace sends one. Answers are JSON, which all these clients accept.
func withProtobufBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if media != runtime.ContentTypeProtobuf || !takesProtobuf(r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		body, err := readBody(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		if len(body) > 0 {
			if body, err = protobufToJSON(body); err != nil {
				fail(w, r, apierrors.NewBadRequest("the protobuf body cannot be read: "+err.Error()))
				return
			}
		}
		r = r.Clone(r.Context())
		r.Header.Set("Content-Type", runtime.ContentTypeJSON)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		h.ServeHTTP(w, r)
	})
}

// takesProtobuf reports whether typed clients send protobuf bodies to a path.
func takesProtobuf(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/"+rbacv1.GroupName+"/")
}

func protobufToJSON(body []byte) ([]byte, error) {
	obj, kind, err := typedProtobuf.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(obj)
}
