package objects

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

func TestCodec(t *testing.T) {
	kind := Stored(kinds.Of(kinds.IgnitionConfigs))
	original := &v1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	original.Compiled = &v1.Compiled{Artifact: []byte("{}"), Hash: "sha256:1", Generation: 3}
	value, err := kind.Codec.Encode(original)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"apiVersion":"v1"`, `"kind":"IgnitionConfig"`, `"compiled":{"artifact":"e30="`} {
		if !strings.Contains(string(value), want) {
			t.Errorf("%s lacks %s", value, want)
		}
	}
	into := &v1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
	into.Spec.Selector.Default = true
	if err := kind.Codec.Decode(value, into); err != nil {
		t.Fatal(err)
	}
	if again, err := kind.Codec.Encode(into); err != nil || string(again) != string(value) {
		t.Errorf("%v: %s, was %s", err, again, value)
	}
	if into.Kind != "" || into.Compiled.Generation != 3 {
		t.Errorf("%+v", into)
	}
}
