package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerAgreesWithIgnitionValidate writes configs to a running server: its phase
// is Ready exactly where ignition-validate takes the config. The corpus of
// internal/domain/ignition, which is compiled as here, has some 2,800 more.
func TestServerAgreesWithIgnitionValidate(t *testing.T) {
	needs(t)
	s := start(t)
	binary := filepath.Join(t.TempDir(), "ignition-validate")
	if err := buildTool("github.com/coreos/ignition/v2/validate", binary, ""); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]string{
		"smallest":       `{"ignition":{"version":"3.0.0"}}`,
		"files":          `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"data:,a"}}]}}`,
		"relative-path":  `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"a"}]}}`,
		"two-paths":      `{"ignition":{"version":"3.6.0"},"storage":{"files":[{"path":"/a"},{"path":"/a"}]}}`,
		"wrong-type":     `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a","mode":"0644"}]}}`,
		"unknown-format": `{"ignition":{"version":"3.2.0"},"storage":{"filesystems":[{"device":"/dev/a","path":"/a","format":"zfs"}]}}`,
		"unused-key":     `{"ignition":{"version":"3.3.0"},"strage":{}}`,
		"truncated":      `{"ignition":{"version":"3.3.0"}`,
		"garbage":        `{"ignition":{"version":"3.3.0"}} x`,
		"empty":          `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			object, err := json.Marshal(map[string]any{
				"apiVersion": "v1", "kind": "IgnitionConfig", "metadata": map[string]any{"name": name},
				"spec": map[string]any{"type": "ignition", "format": "ignition", "config": config},
			})
			if err != nil {
				t.Fatal(err)
			}
			answer := request(t, "POST", s.admin("/api/v1/namespaces/default/ignitionconfigs"), string(object), "Content-Type",
				"application/json")
			var written struct {
				Status struct{ Phase string }
			}
			if err := json.Unmarshal([]byte(answer.body), &written); err != nil {
				t.Fatalf("%d %s: %v", answer.status, answer.body, err)
			}
			validate := exec.CommandContext(t.Context(), binary, "-")
			validate.Stdin = strings.NewReader(config)
			out, err := validate.CombinedOutput()
			want := "Ready"
			if err != nil {
				want = "Error"
			}
			if written.Status.Phase != want {
				t.Errorf("phase %q, ignition-validate: %v %s", written.Status.Phase, err, out)
			}
		})
	}
}
