package api

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// viewOnly is the endpoint of objects that clients may only read.
type viewOnly struct{ reader }

type reader interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.Getter
	rest.Lister
	rest.Watcher
}

// readOnly is the endpoint of objects that clients may only read and delete.
type readOnly struct{ readDeleter }

type readDeleter interface {
	reader
	rest.GracefulDeleter
	rest.CollectionDeleter
}

// writtenByServer has why clients may only read and delete the objects of a resource. Boots may only be read.
var writtenByServer = map[string]string{
	kinds.Boots: "only the server writes Boots; they can be read, and old ones are removed by the limits of their history",
	kinds.UnknownMachines: "only the server writes UnknownMachines; they can be read and deleted, " +
		"and glowplug adopt makes a BareMetalHost of one",
	kinds.Leases:  "only the server writes Leases; they can be read and deleted, which frees the address",
	kinds.Members: "only the server writes Members; they can be read and deleted, and a server that runs writes its own again",
	kinds.Tokens: "only the server writes Tokens; they can be read and deleted, " +
		"and glowplug token create, or kubectl create token, makes one",
}

// withReadOnly refuses to write objects of the server. The library would do so without a reason.
func withReadOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || info.APIGroup != v1.GroupName {
			h.ServeHTTP(w, r)
			return
		}
		reason, refused := writtenByServer[info.Resource], []string{"create", "update", "patch"}
		if info.Resource == kinds.Boots {
			refused = append(refused, "delete", "deletecollection")
		}
		if reason != "" && slices.Contains(refused, info.Verb) {
			fail(w, r, failed(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, reason))
			return
		}
		h.ServeHTTP(w, r)
	})
}
