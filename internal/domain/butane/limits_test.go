package butane

import (
	"os"
	"strings"
	"testing"

	"glowplug/internal/domain/ignition"
)

// TestLimitsPage: docs/reference/limits.md has the bounds of a source as they are.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for text, is := range map[string]bool{
		"small files and units | 5,200 |":          MaxTexts == 5200,
		"| mappings | 15,000 |":                    MaxMappings == 15_000,
		"| keys and values together | 60,000 |":    MaxNodes == 60_000,
		"| keys of one mapping | 512 |":            MaxKeys == 512,
		"| nesting of mappings and lists | 32 |":   MaxDepth == 32,
		"| text | 4 MiB |":                         MaxExpanded == 4<<20,
		"Ignition source has at most 50,000 value": ignition.MaxNodes == 50_000,
	} {
		if !is || !strings.Contains(string(page), text) {
			t.Errorf("docs/reference/limits.md or the bound is wrong: %s", text)
		}
	}
}
