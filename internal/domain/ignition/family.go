// Package ignition validates Ignition configs of spec 2.0.0 to 3.6.0 with positions,
// converts and merges them, and parses Accept headers of clients. It is pure and bounded:
// no input makes it work for long.
package ignition

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	append2_0 "github.com/coreos/ignition/config/v2_0"
	v2_0 "github.com/coreos/ignition/config/v2_0/types"
	append2_1 "github.com/coreos/ignition/config/v2_1"
	v2_1 "github.com/coreos/ignition/config/v2_1/types"
	append2_2 "github.com/coreos/ignition/config/v2_2"
	v2_2 "github.com/coreos/ignition/config/v2_2/types"
	append2_3 "github.com/coreos/ignition/config/v2_3"
	v2_3 "github.com/coreos/ignition/config/v2_3/types"
	append2_4 "github.com/coreos/ignition/config/v2_4"
	v2_4 "github.com/coreos/ignition/config/v2_4/types"
	v3_0 "github.com/coreos/ignition/v2/config/v3_0/types"
	v3_1 "github.com/coreos/ignition/v2/config/v3_1/types"
	v3_2 "github.com/coreos/ignition/v2/config/v3_2/types"
	v3_3 "github.com/coreos/ignition/v2/config/v3_3/types"
	v3_4 "github.com/coreos/ignition/v2/config/v3_4/types"
	v3_5 "github.com/coreos/ignition/v2/config/v3_5/types"
	v3_6 "github.com/coreos/ignition/v2/config/v3_6/types"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

// spec is one version of the family.
type spec struct {
	version
	// name is the version as a config writes it.
	name string
	// config is the library's type of a config.
	config reflect.Type
	// check validates a document as this version, whatever version it names. Without
	// places, which take half of the time, findings have a path and no position, and
	// keys that are not read are not found.
	check func(d *document, places bool) report.Report
	// merge returns a config with a child merged onto it, or in spec 2 appended to it.
	merge func(parent, child reflect.Value) reflect.Value
}

// family has every spec version that is read, the oldest first. 2.2.0-experimental
// had the types of 2.1.0 in the releases that its document describes; what later
// ones added under the same name is not read.
var family = []spec{
	spec2("2.0.0", append2_0.Append, func(c *v2_0.Config) { c.Ignition.Version = v2_0.IgnitionVersion(v2_0.MaxVersion) }),
	spec2("2.1.0", append2_1.Append, func(c *v2_1.Config) { c.Ignition.Version = "2.1.0" }),
	spec2("2.2.0-experimental", append2_1.Append, func(c *v2_1.Config) { c.Ignition.Version = "2.1.0" }),
	spec2("2.2.0", append2_2.Append, func(c *v2_2.Config) { c.Ignition.Version = "2.2.0" }),
	spec2("2.3.0", append2_3.Append, func(c *v2_3.Config) { c.Ignition.Version = "2.3.0" }),
	spec2("2.4.0", append2_4.Append, func(c *v2_4.Config) { c.Ignition.Version = "2.4.0" }),
	spec3("3.0.0", func(c *v3_0.Config) { c.Ignition.Version = "3.0.0" }),
	spec3("3.1.0", func(c *v3_1.Config) { c.Ignition.Version = "3.1.0" }),
	spec3("3.2.0", func(c *v3_2.Config) { c.Ignition.Version = "3.2.0" }),
	spec3("3.3.0", func(c *v3_3.Config) { c.Ignition.Version = "3.3.0" }),
	spec3("3.4.0", func(c *v3_4.Config) { c.Ignition.Version = "3.4.0" }),
	spec3("3.5.0", func(c *v3_5.Config) { c.Ignition.Version = "3.5.0" }),
	spec3("3.6.0", func(c *v3_6.Config) { c.Ignition.Version = "3.6.0" }),
}

func specOf(name string) *spec {
	i := slices.IndexFunc(family, func(s spec) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &family[i]
}

// before reports whether s is the older of two versions; an experimental one is older
// than its release.
func (s *spec) before(other *spec) bool {
	return s.release() < other.release() || s.release() == other.release() && s.pre != "" && other.pre == ""
}

// Versions lists the spec versions that a config can be given in, the oldest first.
func Versions() []string {
	var names []string
	for i := range family {
		if family[i].pre == "" {
			names = append(names, family[i].name)
		}
	}
	return names
}

// member is a field of a config type.
type member struct {
	of   reflect.Type
	name string
}

// members has the fields of every struct that is in a config of any version, by
// their folded JSON keys. It is made once: reflection takes longer than the rest.
var members = func() map[reflect.Type]map[string]member {
	all := map[reflect.Type]map[string]member{}
	var add func(t reflect.Type) map[string]member
	add = func(t reflect.Type) map[string]member {
		for t = bare(t); t.Kind() == reflect.Slice; t = bare(t.Elem()) {
		}
		if t.Kind() != reflect.Struct || isLeaf(t) {
			return nil
		}
		if known, ok := all[t]; ok {
			return known
		}
		fields := map[string]member{}
		all[t] = fields
		for i := range t.NumField() {
			f := t.Field(i)
			name := jsonName(f)
			if f.Anonymous && name == "" { // security.tls of 2.3.0 has a name
				maps.Copy(fields, add(f.Type))
				continue
			}
			fields[jsonscan.Fold(name)] = member{f.Type, name}
			add(f.Type)
		}
		return fields
	}
	for i := range family {
		add(family[i].config)
	}
	return all
}()

// field returns the type and the exact name of a struct's field by its JSON key, in
// any case of letters; t may be a pointer.
func field(t reflect.Type, key string) (reflect.Type, string, bool) {
	m, ok := members[bare(t)][jsonscan.Fold(key)]
	return m.of, m.name, ok
}

func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// isLeaf reports whether a struct is written as a single value, as a URL is in 2.0.0.
func isLeaf(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshaler) }

// has reports whether a config type has a field at a path such as
// "$.storage.files.0.mode".
func has(t reflect.Type, path string) bool {
	for _, key := range strings.Split(path, ".")[1:] {
		t = bare(t)
		if t.Kind() == reflect.Slice {
			t = t.Elem()
			continue
		}
		var ok bool
		if t, _, ok = field(t, key); !ok {
			return false
		}
	}
	return true
}

// names has every field's name of every version, folded.
var names = func() map[string]bool {
	all := map[string]bool{}
	for _, fields := range members {
		for name := range fields {
			all[name] = true
		}
	}
	return all
}()

// versionsWith names the versions with a field at a path: "2.1.0 to 2.4.0 and 3.0.0 and
// later"; empty for none.
func versionsWith(path string) string {
	var spans []string
	for i := 0; i < len(family); i++ {
		if !has(family[i].config, path) {
			continue
		}
		last := i
		for last+1 < len(family) && family[last+1].major == family[i].major && has(family[last+1].config, path) {
			last++
		}
		span := family[i].name
		switch {
		case last == len(family)-1:
			span += " and later"
		case last > i:
			span += " to " + family[last].name
		}
		spans = append(spans, span)
		i = last
	}
	return strings.Join(spans, " and ")
}

// unknown lists the members that a config type does not have, without what is in
// them.
func (d *document) unknown(t reflect.Type) []int {
	types := make([]reflect.Type, len(d.nodes))
	types[0] = t
	var found []int
	for i := 1; i < len(d.nodes); i++ {
		n := &d.nodes[i]
		of := types[n.Parent]
		if of == nil {
			continue
		}
		if of = bare(of); n.Index >= 0 {
			if of.Kind() == reflect.Slice {
				types[i] = of.Elem()
			}
			continue
		}
		if of.Kind() != reflect.Struct {
			continue
		}
		ft, _, ok := field(of, n.Key)
		if !ok {
			found = append(found, i)
			continue
		}
		types[i] = ft
	}
	return found
}

// version is a spec version. A part that a client leaves out, as in "version=1",
// is 0.
type version struct {
	major, minor, patch uint16
	pre                 string
}

// Oldest and Newest bound the spec versions of configs that can be stored.
const (
	Oldest = "2.0.0"
	Newest = "3.6.0"
)

// parseVersion reads "3", "3.4", "3.4.0" or "3.4.0-experimental", without
// allocating. Digits stand without leading zeros.
func parseVersion(s string) (v version, parts int, ok bool) {
	s, v.pre, ok = strings.Cut(s, "-")
	if ok && v.pre == "" {
		return version{}, 0, false
	}
	for _, part := range [...]*uint16{&v.major, &v.minor, &v.patch} {
		digits, rest, more := strings.Cut(s, ".")
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || len(digits) > 1 && digits[0] == '0' {
			return version{}, 0, false
		}
		*part = uint16(n)
		parts++
		if !more {
			return v, parts, true
		}
		s = rest
	}
	return version{}, 0, false
}

// release orders versions without regard to a pre-release.
func (v version) release() uint64 {
	return uint64(v.major)<<32 | uint64(v.minor)<<16 | uint64(v.patch)
}

func (v version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.pre != "" {
		s += "-" + v.pre
	}
	return s
}

// VersionOf returns the spec version that a valid config names, and "" where it
// names none.
func VersionOf(config []byte) string {
	var stub struct{ Ignition struct{ Version string } }
	if json.Unmarshal(config, &stub) != nil {
		return ""
	}
	return stub.Ignition.Version
}

// IsExperimental reports whether a spec version is one that may still change, so
// that only clients of exactly this version take it.
func IsExperimental(version string) bool { return strings.Contains(version, "-") }
