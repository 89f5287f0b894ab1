package ignition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// configs returns valid random configs of a version, and how many were not valid.
func configs(t *testing.T, s *spec, n int) [][]byte {
	t.Helper()
	var all [][]byte
	invalid := map[string]int{}
	for seed := int64(0); seed < int64(n); seed++ {
		raw := generate(seed, s)
		if _, r := Validate(raw); r.HasError() {
			for _, f := range r.Errors() {
				invalid[strings.Map(func(c rune) rune {
					if c >= '0' && c <= '9' {
						return -1
					}
					return c
				}, f.Path+": "+f.Message)]++
			}
			continue
		}
		all = append(all, raw)
	}
	if len(all) < n/2 {
		t.Errorf("%s: only %d of %d configs are valid: %v", s.name, len(all), n, invalid)
	}
	return all
}

// leaves lists every scalar of a JSON text, as "path=value".
func leaves(raw []byte) map[string]string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	found := map[string]string{}
	var walk func(any, string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				walk(member, path+"."+key)
			}
		case []any:
			for i, item := range v {
				walk(item, fmt.Sprintf("%s.%d", path, i))
			}
		default:
			found[path] = fmt.Sprint(v)
		}
	}
	walk(value, "$")
	return found
}

// explicit says a config with the defaults that a conversion writes out or leaves
// out, and without the directories that a file or link in them makes.
func explicit(raw []byte) []byte {
	var root object
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&root)
	storage := sub(root, "storage")
	spec2 := strings.HasPrefix(text(sub(root, "ignition"), "version"), "2")
	setObjects(storage, "directories", slices.DeleteFunc(objects(storage, "directories"), func(node object) bool {
		return !spec2 && node["mode"] == nil && node["user"] == nil && node["group"] == nil && node["overwrite"] != true
	}))
	for _, kind := range []string{"files", "directories", "links"} {
		for _, node := range objects(storage, kind) {
			if node["overwrite"] == false || kind == "files" && spec2 && node["overwrite"] == true {
				delete(node, "overwrite")
			}
			switch _, has := node["mode"]; {
			case has || kind == "links":
			case kind == "directories":
				node["mode"] = number(rootMode)
			case sub(node, "contents")["source"] != nil:
				node["mode"] = number(fileMode)
			}
			for _, key := range []string{"user", "group"} {
				if owner := sub(node, key); kind == "directories" && len(sortedKeys(owner)) == 0 {
					node[key] = object{"id": number(0)}
				}
			}
		}
	}
	for _, unit := range objects(sub(root, "systemd"), "units") {
		if unit["enable"] == true {
			unit["enabled"] = true
		}
		delete(unit, "enable")
	}
	prune(root)
	return encode(root)
}

// withoutEmpty is a config without the fields whose empty value is the same as none: an
// older version may not have them.
func withoutEmpty(raw []byte) []byte {
	var root object
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&root)
	deleteEmpty(root)
	prune(root)
	return encode(root)
}

func deleteEmpty(value any) {
	switch value := value.(type) {
	case object:
		for _, key := range sortedKeys(value) {
			if value[key] == "" && (key == "compression" || key == "advertisement") {
				delete(value, key)
			} else {
				deleteEmpty(value[key])
			}
		}
	case []any:
		for _, item := range value {
			deleteEmpty(item)
		}
	}
}

// canonical is a config in the bytes that a conversion gives.
func canonical(raw []byte) []byte {
	d, s, failure := read(raw)
	if failure != nil {
		panic(failure)
	}
	c := &conversion{from: s, to: s}
	root := c.decode(d.raw)
	prune(root)
	return encode(root)
}

// perVersion is how many random configs of each version are tried.
var perVersion = testkit.Few(12, 150)

// TestRoundTrip converts random configs of every version to every other version and
// back: the config is the same again, or one of the two conversions is refused. From
// spec 3 to spec 2, where defaults differ, it is the same with its defaults said.
func TestRoundTrip(t *testing.T) {
	done := map[string]int{}
	for i := range family {
		from := &family[i]
		for _, raw := range configs(t, from, perVersion) {
			for j := range family {
				to := &family[j]
				there, losses, err := Convert(raw, to.name)
				if err != nil {
					t.Fatalf("%s to %s: %v\n%s", from.name, to.name, err, raw)
				}
				if len(losses) > 0 {
					continue
				}
				if _, r := Validate(there); r.HasError() {
					t.Fatalf("%s to %s: the result is not valid: %v\n%s", from.name, to.name, r.Strings(), there)
				}
				back, losses, err := Convert(there, from.name)
				if err != nil {
					t.Fatal(err)
				}
				if len(losses) > 0 {
					continue
				}
				done[from.name+" to "+to.name]++
				got, want := back, canonical(raw)
				if from.major == to.major {
					if from.major == 2 {
						got, want = explicit(back), explicit(want)
						got, want = filled(got), filled(want)
					}
				} else if from.major == 3 {
					got, want = explicit(back), explicit(want)
				} else {
					// A config of spec 2 has many ways to say one thing. What it
					// becomes in spec 3 stays the same.
					want = there
					got, losses, err = Convert(back, to.name)
					if err != nil || len(losses) > 0 {
						t.Fatalf("%s to %s and back cannot go there again: %v %v\n%s", from.name, to.name, losses, err, back)
					}
				}
				if to.before(from) {
					got, want = withoutEmpty(got), withoutEmpty(want)
				}
				if i != j && !bytes.Equal(got, want) {
					t.Fatalf("%s to %s and back:\n%s\nwant\n%s\nby way of\n%s", from.name, to.name, got, want, there)
				}
			}
		}
	}
	var pairs []string
	for i := range family {
		for j := range family {
			pair := family[i].name + " to " + family[j].name
			if pairs = append(pairs, fmt.Sprintf("%s: %d", pair, done[pair])); done[pair] == 0 {
				t.Errorf("not one config went from %s and back", pair)
			}
		}
	}
	sort.Strings(pairs)
	t.Log(strings.Join(pairs, ", "))
}

// filled says the partitions of spec 2 as 2.3.0 must.
func filled(raw []byte) []byte {
	var root object
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&root)
	eachPartition(root, func(p object) {
		fill(p, "size", number(0))
		fill(p, "start", number(0))
		fill(p, "label", "")
	})
	return encode(root)
}

// TestNothingIsLostSilently holds every conversion of random configs against the
// source: each value of the source is in the result, or the refusal names its field.
func TestNothingIsLostSilently(t *testing.T) {
	for i := range family {
		from := &family[i]
		for _, raw := range configs(t, from, perVersion) {
			source := leaves(raw)
			d, _ := parse(raw)
			paths := map[string]bool{}
			for i := range d.nodes {
				paths[d.path(i)] = true
			}
			for j := range family {
				to := &family[j]
				out, losses, err := Convert(raw, to.name)
				if err != nil {
					t.Fatal(err)
				}
				if len(losses) > 0 {
					for _, l := range losses {
						// The field, or the object that leaves it out.
						object := l.Path[:max(strings.LastIndexByte(l.Path, '.'), 0)]
						if l.Reason == "" || !paths[l.Path] && !paths[object] {
							t.Fatalf("%s to %s: a refusal names no field of the source: %v\n%s", from.name, to.name, l, raw)
						}
					}
					continue
				}
				values := map[string]int{}
				for _, value := range leaves(out) {
					values[value]++
				}
				for path, value := range source {
					if !kept(values, value, from, to, path) {
						t.Fatalf("%s to %s: %s = %s is in neither the result nor a refusal\n%s\n%s", from.name, to.name, path, value, raw,
							out)
					}
				}
			}
		}
	}
}

// kept reports whether a value of the source is among those of the result. The values
// that the generator writes are unique, but for booleans and small numbers.
func kept(values map[string]int, value string, from, to *spec, path string) bool {
	for v := range values {
		if v == value || strings.HasSuffix(v, value) && strings.HasPrefix(value, "/") || strings.HasSuffix(v, "/"+value) ||
			strings.HasSuffix(value, v) && strings.HasPrefix(v, "/") {
			return true
		}
	}
	if from.major == 3 && to.major == 2 && strings.HasPrefix(path, "$.storage.directories.") {
		for v := range values {
			if value == "false" || strings.HasPrefix(v, value+"/") {
				return true // the directory is made for what lies in it
			}
		}
	}
	switch {
	case path == "$.ignition.version",
		from.major != to.major && (strings.HasSuffix(path, ".filesystem") || value == "root" || value == "/sysroot"),
		from.major != to.major && strings.Contains(path, ".storage.filesystems.") && strings.HasSuffix(path, ".name"),
		value == "" && (strings.HasSuffix(path, ".compression") || strings.HasSuffix(path, ".advertisement")),
		value == "true" || value == "false":
		return true
	case strings.HasPrefix(value, "data:;base64,"):
		return true // a config, or the same text in an URL
	case strings.Contains(path, "networkd"):
		for v := range values {
			if strings.HasPrefix(v, "data:;base64,") || strings.HasSuffix(v, value) {
				return true
			}
		}
	}
	return false
}
