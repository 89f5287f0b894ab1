package e2e

import (
	"strings"
	"testing"
)

// TestBrokenConfigsAreRejected: where it is asked for, a source that does not compile is not
// stored, and the answer has the finding and the hint. Elsewhere it is stored with a warning.
func TestBrokenConfigsAreRejected(t *testing.T) {
	needs(t)
	const config = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: NAMESPACE, annotations: {glowplug.dev/reject-broken-configs: "STRICT"}}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.5.0
    storage:
    KEY
`
	write := func(namespace, strict, key string) string {
		return strings.NewReplacer("NAMESPACE", namespace, "STRICT", strict, "KEY", key).Replace(config)
	}
	const good, broken = "  files: []", "files: []"
	const finding = "storage is empty, and must be an object (indent the lines that belong to it deeper, or remove it)"

	s := start(t)
	s.kubectl("", "create", "namespace", "strict")
	s.kubectl("", "annotate", "namespace", "strict", "glowplug.dev/reject-broken-configs=true")
	for _, tt := range []struct {
		name, namespace, strict string
		args                    []string
		rejected                bool
	}{
		{"the default", "rack", "false", nil, false},
		{"the default, dry run", "dry", "false", []string{"--dry-run=server"}, false},
		{"the annotation of the config", "own", "true", nil, true},
		{"the same, by the server", "own", "true", []string{"--server-side"}, true},
		{"the same, dry run", "own", "true", []string{"--dry-run=server"}, true},
		{"the annotation of the namespace", "strict", "false", nil, true},
	} {
		_, stderr, err := s.tryKubectl(write(tt.namespace, tt.strict, broken),
			append([]string{"apply", "-f", "-"}, tt.args...)...)
		if rejected := err != nil; rejected != tt.rejected || strings.Contains(stderr, "Warning: ") == rejected {
			t.Errorf("%s: %v %s", tt.name, err, stderr)
		}
		if !strings.Contains(stderr, "spec.config: ") || !strings.Contains(stderr, finding) {
			t.Errorf("%s: %s", tt.name, stderr)
		}
		stored := s.kubectl("", "get", "ign", "-n", tt.namespace, "-o", "name") != ""
		if dry := strings.Contains(tt.name, "dry"); stored == (tt.rejected || dry) {
			t.Errorf("%s: stored: %v", tt.name, stored)
		}
	}

	// The stored config stays as it was.
	s.kubectl(write("strict", "false", good), "apply", "-f", "-")
	if _, _, err := s.tryKubectl("", "patch", "-n", "strict", "ign", "worker", "--type=merge", "-p",
		`{"spec":{"config":"x"}}`); err == nil {
		t.Error("a patch with a broken source is accepted")
	}
	if phase := s.kubectl("", "get", "-n", "strict", "ign", "worker", "-o", "jsonpath={.status.phase}"); phase != "Ready" {
		t.Errorf("phase %s", phase)
	}
	// A broken config that was stored before can get a label, but no other selector.
	_, stderr, err := s.tryKubectl("", "annotate", "-n", "rack", "ign", "worker", "--overwrite",
		"glowplug.dev/reject-broken-configs=true")
	if err != nil {
		t.Errorf("%v %s", err, stderr)
	}
	if _, _, err := s.tryKubectl("", "patch", "-n", "rack", "ign", "worker", "--type=merge", "-p",
		`{"spec":{"selector":{"default":true}}}`); err == nil {
		t.Error("a broken config gets another selector")
	}
	if _, stderr, err := s.tryKubectl(write("rack", "yes", good), "apply", "-f", "-"); err == nil ||
		!strings.Contains(stderr, `supported values: "true", "false"`) {
		t.Errorf("the annotation yes: %v %s", err, stderr)
	}
}

// TestFlagRejectsBrokenConfigs: the flag holds for every namespace, and no annotation loosens it.
func TestFlagRejectsBrokenConfigs(t *testing.T) {
	needs(t)
	s := start(t, "--reject-broken-configs")
	_, stderr, err := s.tryKubectl(`
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack, annotations: {glowplug.dev/reject-broken-configs: "false"}}
spec: {type: ignition, format: butane, config: "variant: fcos"}
`, "apply", "-f", "-")
	if err == nil || !strings.Contains(stderr,
		`The IgnitionConfig "worker" is invalid: spec.config: Invalid value: line 1:1: version is missing`) {
		t.Errorf("%v %s", err, stderr)
	}
}
