package wording

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/ignition"
)

// TestExplanationText compares the text of explanations with golden files; with
// UPDATE_GOLDEN=1 it writes them.
func TestExplanationText(t *testing.T) {
	explanations, err := filepath.Glob("../explain/testdata/*.json")
	if err != nil || len(explanations) == 0 {
		t.Fatal("there are no explanations", err)
	}
	for _, file := range explanations {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e explain.Explanation
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(file, err)
		}
		got := ExplanationText(&e)
		golden := filepath.Join("testdata", "explain", strings.TrimSuffix(filepath.Base(file), ".json")+".txt")
		if os.Getenv("UPDATE_GOLDEN") == "1" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", golden, got, want)
		}
	}
}

func TestExplanationTextOfLayersAndImages(t *testing.T) {
	got := ExplanationText(&explain.Explanation{
		Hidden: 2,
		Boot: &explain.Boot{Image: "g10/old", Release: "33.1", MaxIgnition: "3.2.0",
			Skew: "host g10/a boots image g10/old"},
		Winner: &explain.Winner{
			Layers: []explain.Layer{
				{Name: "base", Changed: true}, {Name: "side", Failing: true}, {Name: "gone", Missing: true},
			},
			Origins: []ignition.Origin{{Kind: "user", Name: "a\x1b[2J\nb", From: []string{"base", "top"}}},
		},
	})
	for _, want := range []string{
		"release:   the image has release 33.1\n", "reads:     the image reads Ignition spec up to 3.2.0\n",
		"warning:   host g10/a boots image g10/old\n",
		"layer:     base which has changed since\n", "layer:     side, its last good compilation\n",
		"layer:     gone, which no longer exists\n",
		"user a\uFFFD[2J\uFFFDb  base, top\n", "OUTCOME  REASON\nand 2 in other namespaces\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
