package api

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// coreProtobuf decodes the bodies of typed clients of Kubernetes: namespaces, events and the
// options of requests.
var coreProtobuf = func() *protobuf.Serializer {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	return protobuf.NewSerializer(s, s)
}()

// withProtobufBodies converts protobuf bodies under /api/ to JSON, since our types have no
// protobuf form: kubectl create namespace sends one. Answers are JSON, which all these
// clients accept.
func withProtobufBodies(h http.Handler, limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if media != runtime.ContentTypeProtobuf || !strings.HasPrefix(r.URL.Path, "/api/") {
			h.ServeHTTP(w, r)
			return
		}
		body, err := readBody(r, limit)
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

func protobufToJSON(body []byte) ([]byte, error) {
	obj, kind, err := coreProtobuf.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(obj)
}
