package api

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// rewritePath writes objects again whose stored values are not encrypted as new ones are.
const rewritePath = "/api/v1/rewrite"

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
	return only(http.MethodPost, "rewrite", func(w http.ResponseWriter, r *http.Request) {
		written, left, err := rewrite(r.Context())
		if err != nil {
			fail(w, r, err)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, Rewritten{written, left}, w)
	})
}
