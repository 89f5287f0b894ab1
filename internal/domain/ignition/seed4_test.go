package ignition

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seed4 is a config that has every field of the 2.2.0-experimental document.
func seed4(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/seed4.json")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(raw), "HASH", strings.Repeat("ab", 64)))
}

// undocumented are fields of the types of 2.1.0 that the document does not list.
var undocumented = []string{"$.passwd.groups.0.system", "$.passwd.users.0.create.system"}

// fieldsOf lists the shapes of all scalars of a config type.
func fieldsOf(t reflect.Type, path string) []string {
	t = bare(t)
	switch {
	case t.Kind() == reflect.Slice:
		return fieldsOf(t.Elem(), path+".0")
	case t.Kind() != reflect.Struct || isLeaf(t):
		return []string{path}
	}
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			all = append(all, fieldsOf(f.Type, path)...)
			continue
		}
		all = append(all, fieldsOf(f.Type, path+"."+name)...)
	}
	return all
}

var index = regexp.MustCompile(`\.\d+`)

func TestSeed4HasEveryField(t *testing.T) {
	version, found := Validate(seed4(t))
	if version != "2.2.0-experimental" || found.HasError() {
		t.Fatalf("%q: %v", version, found.Strings())
	}
	var have []string
	for path := range leaves(seed4(t)) {
		have = append(have, index.ReplaceAllString(path, ".0"))
	}
	fields := fieldsOf(specOf("2.2.0-experimental").config, "$")
	for _, path := range fields {
		if slices.Contains(have, path) == slices.Contains(undocumented, path) {
			t.Errorf("%s: in the config: %v", path, slices.Contains(have, path))
		}
	}
	for _, path := range have {
		if !slices.Contains(fields, path) {
			t.Errorf("%s is no field", path)
		}
	}
}

// TestSeed4EveryFieldIsRead puts a value of a wrong type into each field: the error
// is at that field.
func TestSeed4EveryFieldIsRead(t *testing.T) {
	d, failure := parse(seed4(t))
	if failure != nil {
		t.Fatal(failure)
	}
	for i, n := range d.nodes {
		if kind := d.kind(i); kind == '{' || kind == '[' || n.Key == "version" {
			continue
		}
		wrong := string(d.raw[:n.Start]) + `{"wrong":1}` + string(d.raw[n.End:])
		_, found := Validate([]byte(wrong))
		if len(found) != 1 || !found.HasError() || found[0].Path != d.path(i) || found[0].Line == 0 || found[0].Column == 0 {
			t.Errorf("%s: %v", d.path(i), found.Strings())
		}
	}
}

// TestSeed4LaterFields holds the document against what later releases added under
// the name 2.2.0-experimental.
func TestSeed4LaterFields(t *testing.T) {
	for path, text := range map[string]string{
		"$.storage.files.0.append":                     `"storage":{"files":[{"filesystem":"root","path":"/a","append":true}]}`,
		"$.storage.files.0.overwrite":                  `"storage":{"files":[{"filesystem":"root","path":"/a","overwrite":true}]}`,
		"$.storage.directories.0.overwrite":            `"storage":{"directories":[{"filesystem":"root","path":"/a","overwrite":true}]}`,
		"$.storage.raid.0.options":                     `"storage":{"raid":[{"name":"a","level":"raid1","options":["a"]}]}`,
		"$.networkd.units.0.dropins":                   `"networkd":{"units":[{"name":"a.network","dropins":[{"name":"a.conf"}]}]}`,
		"$.ignition.security":                          `"ignition":{"version":"2.2.0-experimental","security":{"tls":{}}}`,
		"$.storage.disks.0.partitions.0.sizeMiB":       `"storage":{"disks":[{"device":"/dev/a","partitions":[{"sizeMiB":1}]}]}`,
		"$.storage.luks":                               `"storage":{"luks":[]}`,
		"$.ignition.config.replace.verification.nonce": `"ignition":{"version":"2.2.0-experimental","config":{"replace":{"source":"http://a/","verification":{"nonce":"a"}}}}`,
	} {
		raw := `{"ignition":{"version":"2.2.0-experimental"},` + text + `}`
		if strings.HasPrefix(text, `"ignition"`) {
			raw = "{" + text + "}"
		}
		_, found := Validate([]byte(raw))
		if errors := found.Errors(); len(errors) != 1 || errors[0].Path != path {
			t.Errorf("%s: %v", path, found.Strings())
		}
	}
}

// TestSeed4Compatibility is the document's rule: the majors match, and the version
// is not above the client's; an experimental one is below its release, and of no
// use to another version's client.
func TestSeed4Compatibility(t *testing.T) {
	const client = "application/vnd.coreos.ignition+json; version=2.2.0-experimental"
	for version, takes := range map[string]bool{
		"2.0.0": true, "2.1.0": true, "2.2.0-experimental": true, "2.2.0": false, "2.3.0": false,
		"2.1.0-experimental": false, "2.3.0-experimental": false, "3.0.0": false, "1.0.0": false,
	} {
		if ok, reason := ParseAccept(client).Takes(version); ok != takes {
			t.Errorf("%s: %v %s", version, ok, reason)
		}
	}
}

func TestSeed4ToLaterVersions(t *testing.T) {
	forms, err := Servable(seed4(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range forms {
		served := len(form.Losses) == 0
		if want := form.Version > "2.0.0" && form.Version < "3"; served != want {
			t.Errorf("%s: served %v: %v", form.Version, served, form.Losses)
		}
	}
	// Everything but the sectors and the names of filesystems goes to spec 3.
	var paths []string
	_, losses, _ := Convert(seed4(t), "3.0.0")
	for _, l := range losses {
		paths = append(paths, l.Path)
	}
	want := []string{"$.storage.disks.0.partitions.0.size", "$.storage.disks.0.partitions.0.start",
		"$.storage.filesystems.0.name", "$.storage.filesystems.1.name"}
	if !slices.Equal(paths, want) {
		t.Errorf("refused for %v", losses)
	}
}
