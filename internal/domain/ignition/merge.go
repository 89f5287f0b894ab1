package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	cjson "github.com/clarketm/json"

	"glowplug/internal/domain/report"
)

// Part is a config that is merged with others, and a name for what comes from it.
type Part struct {
	Name   string
	Config []byte
}

// Merged is the result of merging configs.
type Merged struct {
	Config []byte
	// Version is the spec version of Config, the highest of those that were merged.
	Version string

	config reflect.Value
	from   sources
}

// PartError says which of the configs cannot be merged with the others.
type PartError struct {
	Part string
	// Version is the spec version of the merge, and Losses the fields that it cannot have;
	// empty where Err is the cause.
	Version string
	Losses  []Loss
	Err     error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Reason() }

// Reason is the error without the name of the part.
func (e *PartError) Reason() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("it cannot be converted to spec %s: %s", e.Version,
		strings.Join(Listed(e.Losses, Loss.String), "; "))
}

// MergeAll merges valid configs, each over those before it, by the rules of Ignition:
// those of spec 3 or, where all are of spec 2, those of appending. All are first converted
// to the highest spec version among them; a config that cannot be is a PartError. The
// result need not be valid. The same configs always give the same bytes, and a single one
// is returned unchanged.
func MergeAll(parts []Part) (*Merged, error) {
	target, specs, err := readParts(parts)
	if err != nil {
		return nil, err
	}
	m := &Merged{Version: target.name}
	for i, part := range parts {
		raw := part.Config
		if specs[i] != target {
			out, losses, err := Convert(raw, target.name)
			if err != nil || len(losses) > 0 {
				return nil, &PartError{Part: part.Name, Version: target.name, Losses: losses, Err: err}
			}
			raw = out
		}
		config := reflect.New(target.config)
		if err := json.Unmarshal(raw, config.Interface()); err != nil {
			return nil, &PartError{Part: part.Name, Err: errors.New(oneLine(err.Error()))}
		}
		child := config.Elem()
		if i == 0 {
			m.Config, m.config = raw, child
		} else {
			m.config = target.merge(m.config, child)
		}
		m.from = m.from.merged(m.config, child, part.Name)
	}
	if len(parts) > 1 {
		// The version is that of every part; the library would let the child's stand.
		if m.Config, err = cjson.Marshal(m.config.Interface()); err != nil {
			return nil, fmt.Errorf("writing the merged config: %w", err)
		}
	}
	return m, nil
}

// readParts finds the specs of configs, and the highest, in which they are merged. An
// experimental one counts as its release, unless all are of it.
func readParts(parts []Part) (target *spec, specs []*spec, err error) {
	if len(parts) == 0 {
		return nil, nil, errors.New("there is nothing to merge")
	}
	uniform := true
	for _, part := range parts {
		_, s, failure := read(part.Config)
		if failure != nil {
			return nil, nil, &PartError{Part: part.Name, Err: errors.New(failure.String())}
		}
		specs = append(specs, s)
		uniform = uniform && s == specs[0]
		if target == nil || target.before(s) {
			target = s
		}
	}
	if target.pre != "" && !uniform {
		target = specOf(version{major: target.major, minor: target.minor}.String())
	}
	return target, specs, nil
}

// Validate holds a merged config against its spec: configs that are valid each by
// itself need not go together. Findings have a path and no position.
func (m *Merged) Validate() report.Report {
	d, s, failure := read(m.Config)
	if failure != nil {
		return report.Report{*failure}
	}
	return s.check(d, false).Tidy()
}

// Origin says which configs an entry of a merged config came from.
type Origin struct {
	// Kind is the kind of the entry: "file", "unit", "kernel argument".
	Kind string `json:"kind"`
	// Name is its path, name or device, or the argument itself.
	Name string `json:"name"`
	// From names the configs that it is of, the one whose fields win last.
	From []string `json:"from"`
}

// entryLists are the lists whose entries have an origin: the kind of an entry, the place
// of the list, and the members that name an entry, of which the first that is not empty
// counts. Without any, an entry is its own name.
var entryLists = []entryList{
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

type entryList struct {
	kind, path string
	names      []string
}

// namesIn returns the names of the list's entries in a config, in their order.
func (l *entryList) namesIn(config reflect.Value) []string {
	list := valueAt(config, l.path)
	if list.Kind() != reflect.Slice {
		return nil
	}
	names := make([]string, list.Len())
	for i := range names {
		if len(l.names) == 0 {
			names[i] = pointed(list.Index(i)).String()
		}
		for _, key := range l.names {
			if v := valueAt(list.Index(i), key); names[i] == "" && v.Kind() == reflect.String {
				names[i] = v.String()
			}
		}
	}
	return names
}

// entry is a kind and a name: the entries of a list that share a name are merged.
type entry struct{ kind, name string }

// sources has the names of the configs that an entry came from, the one that wins last.
type sources map[entry][]string

// merged returns the sources of the result of merging a config onto those before it.
func (s sources) merged(result, child reflect.Value, childName string) sources {
	out := sources{}
	for _, list := range entryLists {
		own := list.namesIn(child)
		for _, name := range list.namesIn(result) {
			e := entry{list.kind, name}
			out[e] = s[e]
			if slices.Contains(own, name) {
				others := slices.DeleteFunc(slices.Clone(s[e]), func(each string) bool { return each == childName })
				out[e] = append(others, childName)
			}
		}
	}
	return out
}

// Origins lists the entries of a merged config, in the order of their kinds and names.
func (m *Merged) Origins() []Origin {
	var all []Origin
	for _, list := range entryLists {
		names := list.namesIn(m.config)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			all = append(all, Origin{Kind: list.kind, Name: name, From: m.from[entry{list.kind, name}]})
		}
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
	for _, list := range entryLists {
		names := list.namesIn(m.config)
		if i, err := strconv.Atoi(parts[2]); list.path == parts[0]+"."+parts[1] && err == nil && i < len(names) {
			return m.from[entry{list.kind, names[i]}]
		}
	}
	return nil
}

// valueAt returns the value under JSON keys; the zero Value where the type has none, or
// where a pointer on the way is nil.
func valueAt(v reflect.Value, keys string) reflect.Value {
	for key := range strings.SplitSeq(keys, ".") {
		if v = pointed(v); v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		fields := reflect.VisibleFields(v.Type())
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return jsonName(f) == key })
		if i < 0 {
			return reflect.Value{}
		}
		v = v.FieldByIndex(fields[i].Index)
	}
	return pointed(v)
}

func pointed(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// jsonName returns the name of a field in JSON; empty for an embedded struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
