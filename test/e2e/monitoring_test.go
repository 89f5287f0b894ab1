package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestAlertRules checks deploy/monitoring with promtool: each rule, the tests of the
// rules, and the expressions of the dashboard.
func TestAlertRules(t *testing.T) {
	needs(t, "promtool")
	dir := filepath.Join(root, "deploy", "monitoring")
	promtool := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	promtool("check", "rules", "alerts.yaml")
	promtool("test", "rules", "alerts_test.yaml")

	// promtool reads expressions in rules alone.
	content, err := os.ReadFile(filepath.Join(dir, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$job", ".*")
	var rules []map[string]string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, map[string]string{"record": "panel", "expr": variables.Replace(target.Expr)})
		}
	}
	if len(rules) < 10 {
		t.Errorf("the dashboard has %d expressions", len(rules))
	}
	groups, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, groups, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool("check", "rules", "--lint=none", file)
}
