package ignition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// sample is a config of the corpus that ignition-validate and this package both
// judge. Its name says what is wrong with it, if anything is meant to be.
type sample struct {
	Name string
	Raw  []byte
}

// randomSamples is how many random configs of each version are in the corpus.
const randomSamples = 25

// corpus is the samples of one version: random configs, of which most are valid, and
// one config in which one thing at a time is changed. It is always the same.
func corpus(s *spec) []sample {
	var all []sample
	for seed := range int64(randomSamples) {
		all = append(all, sample{fmt.Sprintf("random %d", seed), generate(1000+seed, s)})
	}
	base := strings.ReplaceAll(base3, "VERSION", s.name)
	if s.major == 2 {
		base = strings.ReplaceAll(base2, "VERSION", s.name)
	}
	for _, m := range textMutations {
		all = append(all, sample{m.name, []byte(m.change(base, s.name))})
	}
	for _, m := range mutations {
		if m.major == 0 || m.major == s.major {
			all = append(all, sample{m.name, m.apply(base)})
		}
	}
	return all
}

// The configs that are changed, with something of every kind that their oldest
// version has.
const (
	base2 = `{
  "ignition": {"version": "VERSION"},
  "storage": {
    "disks": [{"device": "/dev/vda", "wipeTable": true, "partitions": [
      {"number": 1, "label": "one", "size": 4096, "start": 2048},
      {"number": 2, "label": "two", "size": 4096, "start": 8192}]}],
    "raid": [{"name": "md", "level": "raid1", "devices": ["/dev/vdb", "/dev/vdc"]}],
    "filesystems": [{"name": "data", "mount": {"device": "/dev/vdd", "format": "ext4"}}],
    "files": [
      {"filesystem": "root", "path": "/etc/a", "mode": 420, "contents": {"source": "data:,a"}},
      {"filesystem": "root", "path": "/etc/b", "contents": {"source": "https://example.com/b"}}]
  },
  "systemd": {"units": [
    {"name": "a.service", "enable": true, "contents": "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target"},
    {"name": "b.service", "mask": true}]},
  "networkd": {"units": [{"name": "a.network", "contents": "[Match]\nName=a"}]},
  "passwd": {
    "users": [{"name": "a", "sshAuthorizedKeys": ["ssh-ed25519 A"]}, {"name": "b"}],
    "groups": [{"name": "g", "gid": 500}]
  }
}`
	base3 = `{
  "ignition": {"version": "VERSION", "timeouts": {"httpTotal": 30}},
  "storage": {
    "disks": [{"device": "/dev/vda", "wipeTable": true, "partitions": [
      {"number": 1, "label": "one", "sizeMiB": 4, "startMiB": 1},
      {"number": 2, "label": "two", "sizeMiB": 4, "startMiB": 8}]}],
    "raid": [{"name": "md", "level": "raid1", "devices": ["/dev/vdb", "/dev/vdc"]}],
    "filesystems": [{"path": "/var", "device": "/dev/vdd", "format": "ext4"}],
    "files": [
      {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,a"}},
      {"path": "/etc/b", "contents": {"source": "https://example.com/b"}}],
    "directories": [{"path": "/opt/d", "mode": 493}],
    "links": [{"path": "/etc/l", "target": "/etc/a"}]
  },
  "systemd": {"units": [
    {"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target",
     "dropins": [{"name": "x.conf", "contents": "[Service]\nNice=1"}]},
    {"name": "b.service", "mask": true}]},
  "passwd": {
    "users": [{"name": "a", "sshAuthorizedKeys": ["ssh-ed25519 A"]}, {"name": "b"}],
    "groups": [{"name": "g", "gid": 500}]
  }
}`
)

// textMutations change the text of a config.
var textMutations = []struct {
	name   string
	change func(config, version string) string
}{
	{"nothing", func(c, _ string) string { return c }},
	{"the smallest config", func(_, v string) string { return `{"ignition":{"version":"` + v + `"}}` }},
	{"empty", func(string, string) string { return "" }},
	{"blank", func(string, string) string { return " \n" }},
	{"an empty object", func(string, string) string { return "{}" }},
	{"a list", func(c, _ string) string { return "[" + c + "]" }},
	{"a string", func(string, string) string { return `"ignition"` }},
	{"null", func(string, string) string { return "null" }},
	{"truncated", func(c, _ string) string { return c[:len(c)*2/3] }},
	{"a trailing brace", func(c, _ string) string { return c + "}" }},
	{"trailing garbage", func(c, _ string) string { return c + "\nx" }},
	{"trailing white space", func(c, _ string) string { return c + "\n\t \r\n" }},
	{"two documents", func(c, _ string) string { return c + "\n" + c }},
	{"a trailing comma", func(c, _ string) string { return strings.TrimSuffix(c, "}") + ",}" }},
	{"a comment", func(c, _ string) string { return "// config\n" + c }},
	{"single quotes", func(c, _ string) string { return strings.ReplaceAll(c, `"`, "'") }},
	{"a byte order mark", func(c, _ string) string { return "\ufeff" + c }},
	{"a cloud-config", func(string, string) string { return "#cloud-config\nusers: []\n" }},
	{"a script", func(string, string) string { return "#!/bin/sh\nexit 0\n" }},
	{"Butane", func(string, string) string { return "variant: fcos\nversion: 1.5.0\n" }},
	{"bytes that are no UTF-8", func(c, _ string) string { return strings.Replace(c, `"one"`, "\"on\xff\"", 1) }},
	{"a duplicate section", func(c, _ string) string { return `{"passwd": {},` + c[1:] }},
	{"a duplicate key", func(c, _ string) string {
		return strings.Replace(c, `"mode": 420`, `"mode": 384, "mode": 420`,
			1)
	}},
	{"a duplicate key in another case", func(c, _ string) string {
		return strings.Replace(c, `"mode": 420`,
			`"Mode": 384, "mode": 420`, 1)
	}},
	{"a key in another case", func(c, _ string) string { return strings.Replace(c, `"mode"`, `"MODE"`, 1) }},
	{"a section in another case", func(c, _ string) string { return strings.Replace(c, `"storage"`, `"Storage"`, 1) }},
	{"a key that no version has", func(c, _ string) string { return strings.Replace(c, `"mode"`, `"mood"`, 1) }},
	{"a section that no version has", func(c, _ string) string { return `{"strage": {},` + c[1:] }},
	{"40 lists in each other", func(c, _ string) string {
		return `{"x": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "," + c[1:]
	}},
	{"an escaped key", func(c, _ string) string { return strings.Replace(c, `"storage"`, `"st\u006frage"`, 1) }},
	{"a version that is missing", func(c, v string) string { return strings.Replace(c, `"version": "`+v+`"`, "", 1) }},
	{"a version that is null", ofVersion("null")},
	{"a version that is a number", ofVersion("3")},
	{"a version that is empty", ofVersion(`""`)},
	{"a version of one part", ofVersion(`"3"`)},
	{"a version of two parts", ofVersion(`"3.1"`)},
	{"a version of four parts", ofVersion(`"3.1.0.0"`)},
	{"a version with a v", ofVersion(`"v3.1.0"`)},
	{"a version with white space", ofVersion(`"3.1.0 "`)},
	{"a version with a leading zero", ofVersion(`"03.1.0"`)},
	{"a version of another patch", ofVersion(`"3.1.1"`)},
	{"a version of another patch of spec 2", ofVersion(`"2.2.1"`)},
	{"a version with build metadata", ofVersion(`"3.1.0+1"`)},
	{"version 1.0.0", ofVersion(`"1.0.0"`)},
	{"version 2.5.0", ofVersion(`"2.5.0"`)},
	{"version 2.5.0-experimental", ofVersion(`"2.5.0-experimental"`)},
	{"version 2.6.0", ofVersion(`"2.6.0"`)},
	{"version 3.1.0-experimental", ofVersion(`"3.1.0-experimental"`)},
	{"version 3.7.0", ofVersion(`"3.7.0"`)},
	{"version 3.7.0-experimental", ofVersion(`"3.7.0-experimental"`)},
	{"version 3.8.0", ofVersion(`"3.8.0"`)},
	{"version 4.0.0", ofVersion(`"4.0.0"`)},
}

func ofVersion(other string) func(config, version string) string {
	return func(c, v string) string { return strings.Replace(c, `"version": "`+v+`"`, `"version": `+other, 1) }
}

// apply sets the values of the mutation in a config.
func (m mutation) apply(config string) []byte {
	var root any
	decoder := json.NewDecoder(strings.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		panic(err)
	}
	for i := 0; i < len(m.edits); i += 2 {
		var value any
		decoder := json.NewDecoder(strings.NewReader(m.edits[i+1]))
		decoder.UseNumber()
		if m.edits[i+1] != "" {
			if err := decoder.Decode(&value); err != nil {
				panic(m.name + ": " + err.Error())
			}
		}
		root = set(root, strings.Split(m.edits[i], "."), value, m.edits[i+1] == "")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(root); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// set returns a tree with another value at a path, or without what is there; it adds
// the objects on the way, and to a list at the index after its last.
func set(in any, path []string, value any, remove bool) any {
	if len(path) == 0 {
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		list, _ := in.([]any)
		if i == len(list) {
			list = append(list, nil)
		}
		list[i] = set(list[i], path[1:], value, remove)
		return list
	}
	o, ok := in.(map[string]any)
	if !ok {
		o = map[string]any{}
	}
	if len(path) == 1 && remove {
		delete(o, path[0])
		return o
	}
	o[path[0]] = set(o[path[0]], path[1:], value, remove)
	return o
}
