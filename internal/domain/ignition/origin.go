package ignition

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/merge"
	"github.com/coreos/vcontext/path"
)

// Origin says which configs an entry of a merged config came from.
type Origin struct {
	// Kind is what it is: "file", "unit", "kernel argument".
	Kind string `json:"kind"`
	// Name is its path, name or device, or the argument itself.
	Name string `json:"name"`
	// From names the configs that it is of, the one whose fields win last.
	From []string `json:"from"`
}

// entryLists are the lists whose entries have an origin: what one of them is called,
// where they are, and the members that name one, of which the first that says
// something does. Without any it is its own name.
var entryLists = []struct {
	kind, path string
	names      []string
}{
	{"disk", "storage.disks", []string{"device"}},
	{"raid", "storage.raid", []string{"name"}},
	{"luks", "storage.luks", []string{"name"}},
	{"filesystem", "storage.filesystems", []string{"device", "name", "mount.device", "path"}},
	{"directory", "storage.directories", []string{"path"}},
	{"file", "storage.files", []string{"path"}},
	{"link", "storage.links", []string{"path"}},
	{"group", "passwd.groups", []string{"name"}},
	{"user", "passwd.users", []string{"name"}},
	{"unit", "systemd.units", []string{"name"}},
	{"networkd unit", "networkd.units", []string{"name"}},
	{"kernel argument", "kernelArguments.shouldExist", nil},
	{"removed kernel argument", "kernelArguments.shouldNotExist", nil},
}

// sources has the names of the configs that an entry came from, the one that wins
// last, by the entry's path: "storage.files.3".
type sources map[string][]string

func entryPath(list string, i int) string { return fmt.Sprintf("%s.%d", list, i) }

// Origins lists the entries of a merged config, in the order of their kinds and names.
func (m *Merged) Origins() []Origin {
	var all []Origin
	for _, list := range entryLists {
		var some []Origin
		entries := valueAt(m.config, list.path)
		for i := range length(entries) {
			o := Origin{Kind: list.kind, Name: nameOf(entries.Index(i), list.names), From: m.from[entryPath(list.path, i)]}
			// Spec 2 may have several entries of one name, of which the last wins.
			if j := slices.IndexFunc(some, func(s Origin) bool { return s.Name == o.Name }); j >= 0 {
				some[j].From = after(some[j].From, o.From)
				continue
			}
			some = append(some, o)
		}
		slices.SortStableFunc(some, func(a, b Origin) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, some...)
	}
	return all
}

// From names the configs that the entry at a path is of, such as
// "$.storage.files.3.mode"; nil where it is in none, or not known.
func (m *Merged) From(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "$."), ".")
	if len(parts) < 3 {
		return nil
	}
	return m.from[strings.Join(parts[:3], ".")]
}

// after puts names behind others, each once.
func after(names, last []string) []string {
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(last, name) })
	return append(out, last...)
}

// sourcesOf says that every entry of a config is of one name.
func sourcesOf(config reflect.Value, name string) sources {
	from := sources{}
	for _, list := range entryLists {
		for i := range length(valueAt(config, list.path)) {
			from[entryPath(list.path, i)] = []string{name}
		}
	}
	return from
}

// transcribed returns the sources of what a child was merged into: the transcript has
// a mapping for each of the two that an entry is of, the parent's first. Of a kernel
// argument that both have it tells the child's alone.
func (s sources) transcribed(t merge.Transcript, parent, result reflect.Value, child string) sources {
	out := sources{}
	for _, list := range entryLists {
		if list.names != nil {
			continue
		}
		was := argumentsOf(parent, list.path)
		for i, argument := range argumentsOf(result, list.path) {
			if j := slices.Index(was, argument); j >= 0 {
				out[entryPath(list.path, i)] = s[entryPath(list.path, j)]
			}
		}
	}
	for _, m := range t.Mappings {
		to, ok := entryOf(m.To)
		if !ok {
			continue
		}
		from := []string{child}
		if m.From.Tag == merge.TAG_PARENT {
			there, _ := entryOf(m.From)
			from = s[there]
		}
		out[to] = after(out[to], from)
	}
	return out
}

func argumentsOf(config reflect.Value, path string) []string {
	var all []string
	list := valueAt(config, path)
	for i := range length(list) {
		all = append(all, list.Index(i).String())
	}
	return all
}

// entryOf returns the path of an entry, where a path in a transcript is one.
func entryOf(p path.ContextPath) (string, bool) {
	if len(p.Path) != 3 {
		return "", false
	}
	section, ok1 := p.Path[0].(string)
	list, ok2 := p.Path[1].(string)
	i, ok3 := p.Path[2].(int)
	return entryPath(section+"."+list, i), ok1 && ok2 && ok3
}

// appended returns the sources of what a config of spec 2 was appended to.
func (s sources) appended(parent, child reflect.Value, name string) sources {
	out := sources{}
	for _, list := range entryLists {
		n := length(valueAt(parent, list.path))
		for i := range n {
			out[entryPath(list.path, i)] = s[entryPath(list.path, i)]
		}
		for i := range length(valueAt(child, list.path)) {
			out[entryPath(list.path, n+i)] = []string{name}
		}
	}
	return out
}

// valueAt returns the value under JSON keys; the zero Value where the type has none, or
// where a pointer on the way is nil.
func valueAt(v reflect.Value, keys string) reflect.Value {
	for _, key := range strings.Split(keys, ".") {
		if v = pointed(v); v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = direct(v, key)
	}
	return pointed(v)
}

func pointed(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// direct returns a struct's member, also that of a struct embedded in it.
func direct(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return v.Field(i)
		}
		if f.Anonymous {
			if found := direct(v.Field(i), key); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// length is that of a list; 0 of nothing.
func length(list reflect.Value) int {
	if list.Kind() != reflect.Slice {
		return 0
	}
	return list.Len()
}

func nameOf(entry reflect.Value, names []string) string {
	if len(names) == 0 {
		return pointed(entry).String()
	}
	for _, name := range names {
		if v := valueAt(entry, name); v.Kind() == reflect.String && v.String() != "" {
			return v.String()
		}
	}
	return ""
}
