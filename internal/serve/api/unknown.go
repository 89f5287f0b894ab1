package api

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
)

// readOnly is the endpoint of objects that clients may only read and delete.
type readOnly struct{ readDeleter }

type readDeleter interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.GracefulDeleter
	rest.CollectionDeleter
}

// withReadOnly refuses to write unknown machines. The library would do so without a reason.
func withReadOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if ok && info.APIGroup == v1.GroupName && info.Resource == kinds.UnknownMachines &&
			slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
			fail(w, r, failed(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
				"only the server writes UnknownMachines; they can be read and deleted, "+
					"and glowplug adopt makes a BareMetalHost of one"))
			return
		}
		h.ServeHTTP(w, r)
	})
}
