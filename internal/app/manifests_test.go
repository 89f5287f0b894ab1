package app

import (
	"slices"
	"strings"
	"testing"

	"glowplug/internal/manifest"
)

// TestManifestsAreAppliedInTheOrderOfTheirKinds: what others use goes first, a layer before the configs over it, and
// of two documents of one object the later one wins.
func TestManifestsAreAppliedInTheOrderOfTheirKinds(t *testing.T) {
	const text = `
kind: BareMetalHost
metadata: {name: h}
---
kind: IgnitionConfig
metadata: {name: upper}
spec: {layers: [{name: base}]}
---
kind: IgnitionConfig
metadata: {name: base}
spec: {config: "first"}
---
kind: Namespace
metadata: {name: rack}
---
kind: IgnitionConfig
metadata: {name: base, namespace: default}
spec: {config: "second"}
---
kind: Nonsense
metadata: {name: x}
---
kind: Secret
metadata: {name: s}
`
	var got []string
	for _, group := range inGroups(manifest.Split("f", []byte(text))) {
		var names []string
		for _, doc := range group {
			names = append(names, doc.Kind+" "+doc.Name)
		}
		got = append(got, strings.Join(names, ", "))
	}
	want := []string{"Namespace rack", "Secret s", "IgnitionConfig base", "IgnitionConfig upper", "IgnitionConfig base",
		"BareMetalHost h", "Nonsense x"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
