package snapshot

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// FuzzScan has every string of a config come through as encoding/json writes
// it, with and without indentation.
func FuzzScan(f *testing.F) {
	f.Add("source\n\t\"quoted\" \\ / \u2028 é \U0001F600 <&>", "role", "builder", []byte("{}"), int64(3), "{}[],:\"\\")
	f.Fuzz(func(t *testing.T, source, key, value string, artifact []byte, generation int64, other string) {
		for _, s := range []string{source, key, value, other} {
			if !utf8.ValidString(s) {
				return
			}
		}
		c := &v1.IgnitionConfig{
			ObjectMeta: metav1.ObjectMeta{
				Name: "x", UID: "u", Generation: generation, Labels: map[string]string{key: value, "role": other},
				Annotations: map[string]string{other: value},
			},
			Spec: v1.IgnitionConfigSpec{Type: "ignition", Config: source, Selector: v1.IgnitionConfigSelector{
				MatchLabels: map[string]string{key: value}, MatchHostnames: []string{other, key}, Default: generation%2 == 0,
			}},
			Status: v1.IgnitionConfigStatus{ErrorMessage: value, Warnings: []string{other, source}},
		}
		data, err := json.Marshal(struct {
			*v1.IgnitionConfig
			Compiled v1.Compiled `json:"compiled"`
		}{c, v1.Compiled{Artifact: artifact, Hash: other, Generation: generation}})
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, "", "\t"); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{data, indented.Bytes()} {
			var doc configDoc
			if err := read(data, &doc); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if doc.metadata.uid != "u" || doc.metadata.generation != generation || !maps.Equal(doc.metadata.labels, c.Labels) ||
				doc.spec.Config != source || !maps.Equal(doc.spec.Selector.MatchLabels, c.Spec.Selector.MatchLabels) ||
				!slices.Equal(doc.spec.Selector.MatchHostnames, c.Spec.Selector.MatchHostnames) ||
				doc.spec.Selector.Default != c.Spec.Selector.Default || doc.status.ErrorMessage != value ||
				!bytes.Equal(doc.compiled.Artifact, artifact) || doc.compiled.Hash != other || doc.compiled.Generation != generation {
				t.Fatalf("%s\nwas read as %+v", data, doc)
			}
		}
	})
}

// FuzzScanAny has nothing crash or hang the scanner.
func FuzzScanAny(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"\u00e9\ud83d\ude00"}},"spec":{"nics":[{"mac":null}]}}`))
	f.Add([]byte(`{"spec":{"nics":[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, doc := range []interface{ scan(*scanner) }{&hostDoc{}, &configDoc{}, &imageDoc{}} {
			_ = read(data, doc)
		}
	})
}

func TestScanRefuses(t *testing.T) {
	for _, value := range []string{
		``, `null`, `[]`, `"x"`, `{`, `{"spec":`, `{"spec":{}`, `{"spec":{}} x`, `{"spec":[]}`, `{"spec":{"type":1}}`,
		`{"spec":{"config":"\x"}}`, `{"spec":{"config":"\u12"}}`, `{"spec":{"config":"open`, `{"metadata":{"generation":"1"}}`,
		`{"compiled":{"artifact":"***"}}`, `{"spec":{"selector":{"default":1}}}`, `{"other":}`, `{"other":{"a":[}`, `{"spec" {}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"a":1,}`,
	} {
		if err := read([]byte(value), &configDoc{}); err == nil || !strings.Contains(err.Error(), "at byte") {
			t.Errorf("%s is read: %v", value, err)
		}
	}
}

func TestScanNull(t *testing.T) {
	value := `{"metadata":{"uid":null,"creationTimestamp":null,"generation":null,"labels":null},` +
		`"spec":{"config":null,"selector":{"matchMACs":null,"default":null}},"compiled":null,"status":null}`
	if err := read([]byte(value), &configDoc{}); err != nil {
		t.Error(err)
	}
}
