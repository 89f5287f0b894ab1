package api

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// rewritePath writes objects again whose stored values are not encrypted as new ones are.
const rewritePath = "/api/v1/rewrite"

func isRewrite(r *http.Request) bool { return r.URL.Path == rewritePath }

// Rewritten is the answer of POST /api/v1/rewrite. A client asks again while Left is not 0.
type Rewritten struct {
	// Rewritten is how many objects were written by this request, Left how many are still to be.
	Rewritten int `json:"rewritten"`
	Left      int `json:"left"`
}

// rewriter answers with the result of a function that works for a second or so.
func rewriter(rewrite func(context.Context) (written, left int, err error)) http.Handler {
	if rewrite == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			fail(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "rewrite"}, r.Method))
			return
		}
		written, left, err := rewrite(r.Context())
		if err != nil {
			fail(w, r, err)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, Rewritten{written, left}, w)
	})
}
