package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// over is a config that writes a file, over layers.
func over(name, text string, layers ...string) *v1.IgnitionConfig {
	c := config(name, fmt.Sprintf(
		"variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/%s\n      contents: {inline: %s}\n", name, text))
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
	}
	return c
}

func TestLayersThatCannotBeNamed(t *testing.T) {
	a := start(t)
	var many []string
	for i := range v1.MaxLayers + 1 {
		many = append(many, fmt.Sprint("l", i))
	}
	for _, c := range []struct {
		layers []string
		want   string
	}{
		{[]string{"x"}, "spec.layers[0].name"}, {[]string{"a", "a"}, "spec.layers[1].name"}, {[]string{""},
			"spec.layers[0].name"},
		{[]string{"Base"}, "spec.layers[0].name"}, {[]string{"../a"}, "spec.layers[0].name"},
		{[]string{strings.Repeat("a", 300)}, "spec.layers[0].name"}, {many, "spec.layers"},
	} {
		if got := a.must(http.StatusUnprocessableEntity, "POST", configs, over("x", "x",
			c.layers...)).fields(t); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q: %q", c.layers, got)
		}
	}
	kickstart := over("x", "x", "base")
	kickstart.Spec.Type, kickstart.Spec.Format = v1.TypeKickstart, v1.FormatKickstart
	if got := a.must(http.StatusUnprocessableEntity, "POST", configs, kickstart).fields(t); len(got) != 1 ||
		got[0] != "spec.layers" {
		t.Errorf("%q", got)
	}
}
