package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
)

// maxErrors bounds the errors of one answer: the library joins them in quadratic time.
const maxErrors = 100

// boundErrors cuts errors to maxErrors and counts the others.
func boundErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	more := &field.Error{
		Type: field.ErrorTypeInvalid, Field: errs[maxErrors].Field, BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("and %d more errors", len(errs)-maxErrors),
	}
	return append(errs[:maxErrors:maxErrors], more)
}

// withBoundedEntries refuses a body with a list or a map that is too long for any object.
// Validation would be too late: the library first computes the managers of a hundred thousand
// labels, in quadratic time.
func withBoundedEntries(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || 0 <= r.ContentLength && r.ContentLength < v1.MaxKeys {
			h.ServeHTTP(w, r)
			return
		}
		body, err := readBody(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		if document, ok := asJSON(body, r.Header.Get("Content-Type")); ok {
			if tooMany := findLong(document); tooMany != nil {
				fail(w, r, apierrors.NewInvalid(kindOf(r.Context()), nameOf(r, document), field.ErrorList{tooMany}))
				return
			}
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	})
}

// readBody reads a whole body. The error is for the client.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBodyBytes+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("the body could not be read")
	case len(body) > MaxBodyBytes:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", MaxBodyBytes))
	}
	return body, nil
}

// asJSON returns a body of a media type as valid JSON. The library refuses other bodies.
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

// findLong returns an error about the first list or map of a JSON document that is too long,
// and nil for a document that is not valid.
func findLong(document []byte) *field.Error {
	if bytes.Count(document, []byte(",")) < v1.MaxKeys {
		return nil // a list or map of n entries has n-1 commas
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(document), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	for {
		if closing := dec.PeekKind(); closing == ']' || closing == '}' {
			if err := checkEntries(dec); err != nil {
				return err
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil
		}
	}
}

// checkEntries checks the length of the list or map whose end the decoder has reached.
func checkEntries(dec *jsontext.Decoder) *field.Error {
	depth := dec.StackDepth()
	kind, n := dec.StackIndex(depth)
	if kind == '{' {
		n /= 2 // names and values
	}
	if n <= v1.MaxKeys {
		return nil
	}
	names := slices.Collect(dec.StackPointer().Tokens())[:depth-1]
	max := maxEntries(names, kind == '[')
	if n <= int64(max) {
		return nil
	}
	var path *field.Path
	for i, name := range names {
		if kind, index := dec.StackIndex(i + 1); kind == '[' {
			path = path.Index(int(index) - 1)
		} else {
			quoted := strconv.Quote(name)
			path = path.Child(quoted[1 : len(quoted)-1])
		}
	}
	if path == nil {
		path = field.NewPath("body")
	}
	err := field.TooMany(path, int(n), max)
	err.Field = clip(err.Field, 256)
	return err
}

// maxEntries bounds a list or a map by the names of those that it lies in.
func maxEntries(names []string, list bool) int {
	inMetadata := len(names) > 1 && names[0] == "metadata"
	switch {
	case inMetadata && names[1] == "managedFields":
		return v1.MaxItems // of a map it names every key, and the map itself
	case list && !(inMetadata && len(names) == 2):
		return v1.MaxItems
	}
	return v1.MaxKeys
}

// kindOf returns the kind that a request is for, or a zero one if it is none of ours.
func kindOf(ctx context.Context) schema.GroupKind {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return schema.GroupKind{}
	}
	return groupKind(info.Resource)
}

// nameOf returns the name of the object of a request, from its path or its body.
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
