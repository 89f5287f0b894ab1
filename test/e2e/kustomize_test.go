package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKustomizeFollowsNames: a prefix of names changes the fields that refer to them.
func TestKustomizeFollowsNames(t *testing.T) {
	needs(t)
	const names = "namereference.yaml"
	references, err := os.ReadFile(filepath.Join("../../deploy/kustomize", names))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		names:                string(references),
		"kustomization.yaml": "namePrefix: prod-\nresources: [all.yaml]\nconfigurations: [" + names + "]\n",
		"all.yaml": `
{apiVersion: v1, kind: BareMetalHost, metadata: {name: one}, spec: {image: live}}
---
{apiVersion: v1, kind: BareMetalHost, metadata: {name: two}, spec: {image: localboot}}
---
{apiVersion: v1, kind: ISCSICdrom, metadata: {name: live}, spec: {ignitionConfig: top}}
---
{apiVersion: v1, kind: IgnitionConfig, metadata: {name: base}}
---
{apiVersion: v1, kind: IgnitionConfig, metadata: {name: top}, spec: {layers: [{name: base}]}}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(kubectlPath(t), "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"image: prod-live", "image: localboot", "ignitionConfig: prod-top", "- name: prod-base"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
