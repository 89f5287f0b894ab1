package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	text "text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"sigs.k8s.io/yaml"
)

// fromLibrary are the functions of the library that a template may call. They use no
// clock, chance, environment, file or network, change no argument, and do not depend on
// the order of a map. Regular expressions and functions that make lists of any length are
// left out: their cost does not follow from their arguments.
var fromLibrary = []string{
	"quote", "squote", "indent", "nindent", "lower", "upper", "trim", "trimAll", "trimPrefix", "trimSuffix", "replace",
	"contains", "hasPrefix", "hasSuffix", "trunc", "substr", "join", "splitList", "toString", "b64enc", "sha256sum",
	"default", "coalesce", "empty", "ternary", "fail", "list", "dict", "get", "hasKey", "has", "first", "last", "rest",
	"initial", "sortAlpha", "mustToJson", "int", "add", "add1", "sub", "mul", "div", "mod", "max", "min", "base", "dir",
}

// builtin are the functions of text/template that a template may call as they are;
// what they compare is weighed before.
var builtin = map[string]bool{
	"and": true, "or": true, "not": true, "len": true, "slice": true,
	"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true,
}

// functions are all others, as they are without a meter.
var functions = func() map[string]reflect.Value {
	all := map[string]any{
		"index": index, "print": fmt.Sprint, "println": fmt.Sprintln, "printf": fmt.Sprintf,
		"toYaml": toYaml, "required": required, secretName: Placeholder, "urlquery": text.URLQueryEscaper,
	}
	library := sprig.GenericFuncMap()
	for _, name := range fromLibrary {
		all[name] = library[name]
	}
	// toJson of the library gives nothing where it fails.
	all["toJson"] = all["mustToJson"]
	delete(all, "mustToJson")
	out := make(map[string]reflect.Value, len(all))
	for name, f := range all {
		out[name] = reflect.ValueOf(f)
	}
	return out
}()

// declared is what a template is parsed with; no name is called before it has
// been bound to a meter.
var declared = func() text.FuncMap {
	same := func(v any) any { return v }
	m := text.FuncMap{chargeName: func(int, int) string { return "" }, weighName: same, probeName: same}
	for name, f := range functions {
		m[name] = f.Interface()
	}
	return m
}()

// index is text/template's, where a missing key is an error too.
func index(item any, keys ...any) (any, error) {
	for position, key := range keys {
		v := reflect.ValueOf(item)
		switch v.Kind() {
		case reflect.Map:
			k := reflect.ValueOf(key)
			if !k.IsValid() || !k.Type().AssignableTo(v.Type().Key()) {
				return nil, fmt.Errorf("%v is no key of a map", key)
			}
			found := v.MapIndex(k)
			if !found.IsValid() {
				return nil, &absent{item, k.String(), position}
			}
			item = found.Interface()
		case reflect.Slice, reflect.String:
			i := reflect.ValueOf(key)
			if !i.IsValid() || !i.CanInt() {
				return nil, fmt.Errorf("%v is no index", key)
			}
			if n := i.Int(); n < 0 || n >= int64(v.Len()) {
				return nil, fmt.Errorf("there is no element %d: there are %d", n, v.Len())
			}
			item = v.Index(int(i.Int())).Interface()
		default:
			return nil, errors.New("index is for maps and lists")
		}
	}
	return item, nil
}

// toYaml writes a value as YAML without the newline at its end, as in Helm.
func toYaml(value any) (string, error) {
	out, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(out), "\n"), err
}

// required returns a value, or the message as an error where it is empty.
func required(message string, value any) (any, error) {
	if value == nil || value == "" {
		return nil, errors.New(message)
	}
	return value, nil
}
