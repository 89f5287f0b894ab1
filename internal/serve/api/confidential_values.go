package api

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// value is what an object has in a confidential field.
type value struct {
	path, text string
	set        func(text string)
}

// textAt returns the value of a field.
func textAt(path string, text *string) value {
	return value{path, *text, func(text2 string) { *text = text2 }}
}

// texts returns the confidential values of an object by their paths.
func (s *secrecy) texts(obj runtime.Object) map[string]string {
	texts := map[string]string{}
	for _, v := range s.values(obj) {
		texts[v.path] = v.text
	}
	return texts
}

// secretSecrecy describes a Secret. As in Kubernetes, who may get, list or watch it reads its values; who may only
// write it does not, neither in an answer nor with a patch that copies or tests them.
func secretSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.Secrets, rights: r, verbs: []string{"list", "watch"},
		paths: [][]string{{"data"}, {"stringData"}}, // the latter in the annotation of kubectl apply alone
		values: func(obj runtime.Object) (values []value) {
			data := obj.(*v1.Secret).Data
			for _, key := range slices.Sorted(maps.Keys(data)) {
				values = append(values, value{field.NewPath("data").Key(key).String(), string(data[key]),
					func(text string) { data[key] = []byte(text) }})
			}
			return values
		},
		isFixed: func(obj runtime.Object) bool {
			immutable := obj.(*v1.Secret).Immutable
			return immutable != nil && *immutable
		},
	}
}
