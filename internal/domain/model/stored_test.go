package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/ignition"
)

// FuzzStored has every string of a config come through as encoding/json writes
// it, with and without indentation.
func FuzzStored(f *testing.F) {
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
			var doc storedConfig
			if err := read(data, &doc); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if doc.Metadata.UID != "u" || doc.Metadata.Generation != generation || !maps.Equal(doc.Metadata.Labels, c.Labels) ||
				doc.Spec.Config != source || !maps.Equal(doc.Spec.Selector.MatchLabels, c.Spec.Selector.MatchLabels) ||
				!slices.Equal(doc.Spec.Selector.MatchHostnames, c.Spec.Selector.MatchHostnames) ||
				doc.Spec.Selector.Default != c.Spec.Selector.Default || doc.Status.ErrorMessage != value ||
				!bytes.Equal(doc.Compiled.Artifact, artifact) ||
				doc.Compiled.Hash != other || doc.Compiled.Generation != generation {
				t.Fatalf("%s\nwas read as %+v", data, doc)
			}
		}
	})
}

// FuzzStoredAny has nothing crash the decoding, and everything come through as the
// API reads it.
func FuzzStoredAny(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"\u00e9\ud83d\ude00"}},"spec":{"nics":[{"mac":null}]}}`))
	f.Add([]byte(`{"metadata":{"generation":3,"creationTimestamp":"2026-01-01T00:00:00+02:00"},` +
		`"spec":{"type":"ignition","selector":{"default":true}},"compiled":{"artifact":"e30="}}`))
	f.Add([]byte(`{"spec":{"chap":null,"menu":false,"external":{"lun":7}},"status":{"files":[{"role":"rootfs"}]}}`))
	f.Add([]byte(`{"spec":{"nics":[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		agree[storedHost](t, data)
		agree[storedConfig](t, data)
		agree[storedImage](t, data)
	})
}

// agree reads a value both ways, except for duplicate members.
func agree[T any](t *testing.T, data []byte) {
	t.Helper()
	var ours, api T
	_ = read(data, &ours)
	var all map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &all) != nil || all == nil {
		return
	}
	once, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	ours = *new(T)
	errOurs, errAPI := read(once, &ours), kjson.UnmarshalCaseSensitivePreserveInts(once, &api)
	if (errOurs == nil) != (errAPI == nil) {
		t.Fatalf("%s: %v, the API has %v", once, errOurs, errAPI)
	}
	same := cmp.Options{cmp.Comparer(func(a, b timestamp) bool { return a == b }), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(api, ours, same); errOurs == nil && diff != "" {
		t.Fatalf("%s is read otherwise than by the API: %s", once, diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, value := range []string{
		``, `null`, `[]`, `"x"`, `{`, `{"spec":`, `{"spec":{}`, `{"spec":{}} x`, `{"spec":[]}`, `{"spec":{"type":1}}`,
		`{"spec":{"config":"\x"}}`, `{"spec":{"config":"\u12"}}`,
		`{"spec":{"config":"open`, `{"metadata":{"generation":"1"}}`,
		`{"compiled":{"artifact":"***"}}`, `{"spec":{"selector":{"default":1}}}`,
		`{"other":}`, `{"other":{"a":[}`, `{"spec" {}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"a":1,}`, `{"metadata":{"generation":1.5}}`,
	} {
		if err := read([]byte(value), &storedConfig{}); err == nil {
			t.Errorf("%s is read", value)
		}
	}
}

// TestErrorsHoldNoValues has what is logged of a value that cannot be read name
// its place only.
func TestErrorsHoldNoValues(t *testing.T) {
	for _, value := range []string{
		`{"spec":{"chap":{"password":271828}}}`, `{"spec":{"chap":{"password":["271828"]}}}`,
		`{"spec":{"chap":{"password":"271828`,
		`{"metadata":{"creationTimestamp":"271828"}}`, `{"metadata":{"generation":271828271828271828271828}}`,
	} {
		if err := read([]byte(value), &storedImage{}); err == nil || strings.Contains(err.Error(), "2718") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestReadLenient reads what other programs write and the API reads, too.
func TestReadLenient(t *testing.T) {
	for _, value := range []string{
		`{"metadata":{"uid":null,"creationTimestamp":null,"generation":null,"labels":null},` +
			`"spec":{"config":null,"selector":{"matchMACs":null,"default":null}},"compiled":null,"status":null}`,
		`{"metadata":{"creationTimestamp":""}}`, `{"spec":{"type":"a","type":"b"}}`, `{"compiled":{"artifact":"e3\n0="}}`,
		"{\"spec\":{\"config\":\"\xff\"}}",
		`{"other":{"spec":{"type":1}},"Spec":7}`, ` { } `,
	} {
		if err := read([]byte(value), &storedConfig{}); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestServable(t *testing.T) {
	for _, tt := range []struct{ servable, want string }{
		{`[{"versions":"2.0.0-2.4.0","blockedBy":["x"]},{"versions":"3.2.0"},{"versions":"3.3.0-3.4.0"}]`, "3.2.0 3.3.0 3.4.0"},
	} {
		config, err := decodeConfig(Stored{Key: "a/b", Value: []byte(`{"spec":{"type":"ignition","selector":{"default":true}},` +
			`"compiled":{"artifact":"e30=","ignitionVersion":"3.4.0"},"status":{"servable":` + tt.servable + `}}`)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if config.Unjudged || config.Servable != ignition.SpecsOf(strings.Fields(tt.want)...) {
			t.Errorf("%s: %v %b, want %s", tt.servable, config.Unjudged, config.Servable, tt.want)
		}
	}
}
