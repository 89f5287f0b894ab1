package api

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// fsckPath answers with what is the matter with the stored objects.
const fsckPath = "/api/v1/fsck"

// checker answers with the result of a function that reads all that is stored, one at a time. The names in it are of
// all namespaces: the authorization before this gives it to those who may get the path.
func checker(check func(context.Context) (any, error)) http.Handler {
	if check == nil {
		return nil
	}
	return oneAtATime("fsck", "another check is under way: come again", func(w http.ResponseWriter, r *http.Request) {
		checked, err := check(r.Context())
		if err != nil {
			fail(w, r, apierrors.NewServiceUnavailable("the store cannot be read: "+err.Error()))
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, checked, w)
	})
}
