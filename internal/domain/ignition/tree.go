package ignition

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object on its way through a conversion: its members by the names
// that the specs give them, without null and without what is empty. Under origin it
// has the path that it had in the source, so that a refusal names a field as its
// author knows it.
type object = map[string]any

// origin is no name of a field.
const origin = ""

// meaningful are the members that say something even where they are empty: a replace
// of spec 2 replaces, though it name nothing to replace with.
var meaningful = map[string]bool{"create": true, "mount": true, "replace": true}

// decode reads a document as the type of its spec. What the spec does not have is
// refused: its bytes cannot be carried over, and mean nothing where they stand.
func (c *conversion) decode(raw []byte) object {
	value, _ := decodeLoosely(raw) // the caller has read the text as JSON before
	root, _ := c.known(c.from.config, value, "$").(object)
	return root
}

func (c *conversion) known(t reflect.Type, value any, path string) any {
	t = bare(t)
	switch value := value.(type) {
	case map[string]any:
		out := object{origin: path}
		for key, member := range value {
			ft, name, ok := field(t, key)
			at := path + "." + key
			switch {
			case !ok:
				c.lose(at, "spec %s has no such field, so that Ignition does not read it: remove it", c.from.name)
			case member != nil:
				if m := c.known(ft, member, at); !isEmpty(m) || meaningful[name] && (name != "replace" || c.from.major == 2) {
					out[name] = m
				}
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			if item == nil {
				item = zero(t.Elem())
			}
			out[i] = c.known(t.Elem(), item, path+"."+strconv.Itoa(i))
		}
		return out
	}
	return value
}

// zero is what Go's decoder makes of a null in a list.
func zero(t reflect.Type) any {
	if t.Kind() == reflect.Struct {
		return object{}
	}
	return ""
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case object:
		_, has := value[origin]
		return len(value) == 0 || has && len(value) == 1
	case []any:
		return len(value) == 0
	}
	return false
}

// prune leaves out the members that have become empty.
func prune(value any) {
	switch value := value.(type) {
	case object:
		for key, member := range value {
			if prune(member); isEmpty(member) && !meaningful[key] && key != origin {
				delete(value, key)
			}
		}
	case []any:
		for _, item := range value {
			prune(item)
		}
	}
}

// encode writes an object: members sorted, no blanks, no origins.
func encode(root object) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(withoutOrigins(root)) // of nothing but JSON's own types
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func withoutOrigins(value any) any {
	switch value := value.(type) {
	case object:
		out := make(map[string]any, len(value))
		for key, member := range value {
			if key != origin {
				out[key] = withoutOrigins(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = withoutOrigins(item)
		}
		return out
	}
	return value
}

// sub returns the object under keys, nil where there is none. A nil object can be
// read and not written.
func sub(o object, keys ...string) object {
	for _, key := range keys {
		o, _ = o[key].(object)
	}
	return o
}

// ensure returns the object under keys, which is made where there is none.
func ensure(o object, keys ...string) object {
	for _, key := range keys {
		next, ok := o[key].(object)
		if !ok {
			next = object{origin: pathOf(o, key)}
			o[key] = next
		}
		o = next
	}
	return o
}

// objects returns the objects in the list under a key.
func objects(o object, key string) []object {
	list, _ := o[key].([]any)
	out := make([]object, 0, len(list))
	for _, item := range list {
		if item, ok := item.(object); ok {
			out = append(out, item)
		}
	}
	return out
}

// setObjects puts a list under a key, or takes it away where it is empty.
func setObjects(o object, key string, list []object) {
	if len(list) == 0 {
		delete(o, key)
		return
	}
	items := make([]any, len(list))
	for i, item := range list {
		items[i] = item
	}
	o[key] = items
}

// text returns the string under a key, "" where there is none.
func text(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func isTrue(o object, key string) bool {
	b, _ := o[key].(bool)
	return b
}

// integer returns the number under a key, and whether there is one.
func integer(o object, key string) (int64, bool) {
	n, _ := o[key].(json.Number)
	i, err := n.Int64()
	return i, err == nil
}

func number(i int64) json.Number { return json.Number(strconv.FormatInt(i, 10)) }

// pathOf is the path of a member in the source.
func pathOf(o object, key string) string { return text(o, origin) + "." + key }

// move takes members over from one object into another, with their values.
func move(from, to object, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
			delete(from, key)
		}
	}
}

// equalValues reports whether two values are equal, whatever their origins.
func equalValues(a, b any) bool { return reflect.DeepEqual(withoutOrigins(a), withoutOrigins(b)) }

// source returns the path in the source of the value at a path of the tree.
func source(root object, path string) string {
	var value any = root
	found := []string{"$"}
	for _, key := range strings.Split(path, ".")[1:] {
		found = append(found, key)
		switch v := value.(type) {
		case object:
			value = v[key]
		case []any:
			value = nil
			if i, err := strconv.Atoi(key); err == nil && i < len(v) {
				value = v[i]
			}
		}
		if o, ok := value.(object); ok && text(o, origin) != "" {
			found = []string{text(o, origin)}
		}
	}
	return strings.Join(found, ".")
}

// sortedKeys returns the names of an object's members in order.
func sortedKeys(o object) []string {
	keys := slices.Sorted(maps.Keys(o))
	return slices.DeleteFunc(keys, func(key string) bool { return key == origin })
}
