package api

import (
	"context"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
)

// applied returns the values of the confidential fields in the object that kubectl apply keeps in the annotation,
// "" for one that it does not have; nil where there is no such object. They are no texts where it cannot be read.
func (s *secrecy) applied(obj runtime.Object) []any {
	text := obj.(metav1.Object).GetAnnotations()[v1.AnnotationLastApplied]
	if text == "" {
		return nil
	}
	values := make([]any, len(s.paths))
	var content map[string]any
	if json.Unmarshal([]byte(text), &content) != nil {
		return values
	}
	for i, path := range s.paths {
		value, found, err := unstructured.NestedFieldNoCopy(content, path...)
		switch {
		case found && err == nil:
			values[i] = value
		case err == nil:
			values[i] = ""
		}
	}
	return values
}

// concealsApplied reports whether everybody may read the fields of an object, and the user of a request may
// not read those that kubectl apply keeps in the annotation: others than the object has now. They may be of a time
// when it was confidential, whatever the annotation says of that.
func (s *secrecy) concealsApplied(ctx context.Context, obj runtime.Object) bool {
	if s.isOpen == nil || !s.isOpen(obj) || obj.(metav1.Object).GetAnnotations()[v1.AnnotationLastApplied] == "" ||
		s.mayGet(ctx, obj) {
		return false
	}
	now := s.values(obj)
	for i, value := range s.applied(obj) {
		if value != "" && (i >= len(now) || value != now[i].text) {
			return true
		}
	}
	return false
}

// hideApplied hides what is confidential in the annotation of kubectl apply.
func (s *secrecy) hideApplied(obj runtime.Object) {
	annotations := obj.(metav1.Object).GetAnnotations()
	if applied := annotations[v1.AnnotationLastApplied]; applied != "" {
		annotations[v1.AnnotationLastApplied] = s.redactApplied(applied)
	}
}

// redactApplied hides what is confidential in the object that kubectl apply keeps in an annotation.
func (s *secrecy) redactApplied(applied string) string {
	var content map[string]any
	if json.Unmarshal([]byte(applied), &content) != nil {
		return redacted
	}
	for _, path := range s.paths {
		switch value, found, err := unstructured.NestedFieldNoCopy(content, path...); {
		case err != nil:
			return redacted // a parent is no map
		case found && value != "":
			_ = unstructured.SetNestedField(content, redacted, path...) // the parents are maps
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(content) != nil {
		return redacted
	}
	return text.String()
}
