package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/domain/model"
)

const templateHost = `---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec:
  bootMACAddress: "52:54:00:12:34:56"
  labels: {role: worker, rack: r1}
  nics: [{mac: "52:54:00:12:34:57"}, {mac: "52:54:00:12:34:58"}]
`

// TestTheTemplateInTheDocs renders the example of docs/guides/templates.md.
func TestTheTemplateInTheDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "templates.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	file := filepath.Join(t.TempDir(), "rack.yaml")
	if err := os.WriteFile(file, []byte(example+templateHost), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, problems, err := Read(model.IsolateTenants, file)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	rendered := 0
	objects.Render(func(r *HostRendering) {
		rendered++
		for _, want := range []string{"inline: \"node-1\"",
			"rack: \"r1\"\n          zone: \"none\"\n          labels:\n            rack: r1\n            role: worker\n",
			"data1.nmconnection", "mac-address=52:54:00:12:34:58"} {
			if !strings.Contains(string(r.Text), want) {
				t.Errorf("there is no %q in:\n%s", want, r.Text)
			}
		}
		if r.Artifact == nil {
			t.Error(r.Message())
		}
	})
	if rendered != 1 {
		t.Errorf("rendered %d times", rendered)
	}
}
