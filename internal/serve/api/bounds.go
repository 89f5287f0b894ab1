package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
)

// maxErrors bounds the errors of one answer: the library takes quadratic time to
// make a sentence of them, and nobody reads more.
const maxErrors = 100

// few cuts errors to maxErrors and counts the others.
func few(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	more := &field.Error{
		Type: field.ErrorTypeInvalid, Field: errs[maxErrors].Field, BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("and %d more errors", len(errs)-maxErrors),
	}
	return append(errs[:maxErrors:maxErrors], more)
}

// withBoundedEntries refuses a body with a list or a map that is longer than any
// object may have. Validation says the same, but too late: the library first finds
// out who set which of a hundred thousand labels, in quadratic time.
func withBoundedEntries(h http.Handler, limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || 0 <= r.ContentLength && r.ContentLength < v1.MaxKeys {
			h.ServeHTTP(w, r)
			return
		}
		body, err := readBody(r, limit)
		if err != nil {
			fail(w, r, err)
			return
		}
		if !mayBeLong(body) {
			// Most bodies are not: they are not parsed once more.
		} else if document, ok := asJSON(body, r.Header.Get("Content-Type")); ok {
			if tooMany := findLong(document); tooMany != nil {
				fail(w, r, apierrors.NewInvalid(kindOf(r), nameOf(r, document), field.ErrorList{tooMany}))
				return
			}
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	})
}

// readBody reads a whole body of at most limit bytes. The error is for the client.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("the body could not be read")
	case int64(len(body)) > limit:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
	}
	return body, nil
}

// asJSON returns a body of a media type as valid JSON. What is no such thing is left
// to the library, which has its own words for it.
func asJSON(body []byte, media string) ([]byte, bool) {
	if json.Valid(body) {
		return body, true
	}
	if !strings.Contains(strings.ToLower(media), "yaml") {
		return nil, false
	}
	document, err := yaml.YAMLToJSON(body)
	return document, err == nil
}

// mayBeLong reports whether a body has as many separators of entries, in JSON or in
// YAML, as the shortest list or map that is too long.
func mayBeLong(body []byte) bool {
	n := 0
	for _, b := range body {
		switch b {
		case ',', '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end the line breaks of Unicode
			n++
		}
	}
	return n >= v1.MaxKeys
}

// level is a list or a map that is being read: how many entries have ended, and in a
// map the key of the present one.
type level struct {
	list bool
	n    int
	key  string
}

// findLong finds the first list or map of a JSON document that is too long. It does
// no more than to count commas, for most bodies have nothing of the kind.
func findLong(document []byte) *field.Error {
	var open []level
	var text []byte // the last string
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '"':
			begin := i + 1
			for i = begin; document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
			text = document[begin:i]
		case ':':
			open[len(open)-1].key = string(text)
		case ',':
			open[len(open)-1].n++
		case '[', '{':
			open = append(open, level{list: document[i] == '['})
		case ']', '}':
			closed := open[len(open)-1]
			open = open[:len(open)-1]
			if n, max := closed.n+1, maxEntries(open, closed.list); n > max {
				return field.TooMany(field.NewPath(cmp.Or(pathOf(open), "body")), n, max)
			}
		}
	}
	return nil
}

// maxEntries bounds a list or a map that lies in those that are open.
func maxEntries(open []level, list bool) int {
	inMetadata := len(open) > 1 && open[0].key == "metadata"
	switch {
	case inMetadata && open[1].key == "managedFields":
		return v1.MaxItems // of a map it names every key, and the map itself
	case list && !(inMetadata && len(open) == 2):
		return v1.MaxItems
	}
	return v1.MaxKeys
}

// pathOf is where the present entry of a document is.
func pathOf(open []level) string {
	var b strings.Builder
	for _, l := range open {
		switch {
		case b.Len() > 256:
			return b.String() + "…"
		case l.list:
			b.WriteString("[" + strconv.Itoa(l.n) + "]")
		case b.Len() > 0:
			b.WriteString("." + l.key[:min(len(l.key), 64)])
		default:
			b.WriteString(l.key[:min(len(l.key), 64)])
		}
	}
	return b.String()
}

// kindOf is the kind that a request is for; zero where it is none of ours.
func kindOf(r *http.Request) schema.GroupKind {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || kindsByResource[info.Resource].New == nil {
		return schema.GroupKind{}
	}
	kinds, _, err := scheme.ObjectKinds(newObject(info.Resource))
	if err != nil {
		return schema.GroupKind{}
	}
	return kinds[0].GroupKind()
}

// nameOf is the name of the object that a request is for, in its path or its body.
func nameOf(r *http.Request, document []byte) string {
	if info, ok := request.RequestInfoFrom(r.Context()); ok && info.Name != "" {
		return info.Name
	}
	var object struct {
		Metadata struct{ Name string }
	}
	if json.Unmarshal(document, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}
