package cli

import (
	"strings"
	"testing"

	"glowplug/internal/manifest"
)

// TestImagesGoBeforeTheirHosts: an image is applied before the hosts that boot it, so that the answer to the write of a
// host does not say that there is none. All other objects keep their order.
func TestImagesGoBeforeTheirHosts(t *testing.T) {
	object := func(kind, name, image string) *prepared {
		return &prepared{doc: &manifest.Document{Kind: kind, Namespace: "g10", Name: name}, image: image}
	}
	docs := []*prepared{
		object("Namespace", "g10", ""), object("BareMetalHost", "a", "g10/live"), object("BareMetalHost", "b", "g10/live"),
		object("BareMetalHost", "c", "other/live"), object("ISCSICdrom", "live", ""),
	}
	var names []string
	for _, p := range lowestFirst(docs) {
		names = append(names, p.doc.Name)
	}
	if got := strings.Join(names, " "); got != "g10 live a b c" {
		t.Error(got)
	}
	for image, want := range map[string]string{
		"": "", "localboot": "localboot", "live": "g10/live", "other/live": "other/live",
	} {
		if got := imageOf(map[string]any{"image": image}, "g10"); got != want {
			t.Errorf("%q: %q, want %q", image, got, want)
		}
	}
}
