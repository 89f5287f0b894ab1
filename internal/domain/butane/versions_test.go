package butane

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"glowplug/internal/domain/ignition"
)

// TestEveryVersion compiles the smallest document of every variant and version.
func TestEveryVersion(t *testing.T) {
	for _, variant := range Variants() {
		for _, version := range versions[variant] {
			t.Run(variant+" "+version, func(t *testing.T) {
				source := "variant: " + variant + "\nversion: " + version + "\n"
				if variant == "openshift" {
					source += "metadata:\n  name: a\n  labels:\n    machineconfiguration.openshift.io/role: worker\n"
				}
				output, found := Translate([]byte(source))
				if output == nil {
					t.Fatal(found.Strings())
				}
				spec := ignition.VersionOf(output)
				if !strings.HasPrefix(spec, "3.") {
					t.Errorf("the output is of spec %q: %s", spec, output)
				}
				if ignition.IsExperimental(spec) != ignition.IsExperimental(version) {
					t.Errorf("%s gives spec %s", version, spec)
				}
				if got := len(found.Warnings()) > 0; got != ignition.IsExperimental(spec) {
					t.Errorf("spec %s beside the warnings %q", spec, found.Strings())
				}
			})
		}
	}
}

// TestVersionsAreTheLibrarys reads the library's own table out of its source.
func TestVersionsAreTheLibrarys(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/coreos/butane/config").Output()
	if err != nil {
		t.Skipf("needs the go command: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config.go"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for variant, list := range versions {
		for _, version := range list {
			ours[variant+" "+version] = true
		}
	}
	registered := regexp.MustCompile(`RegisterTranslator\("(\w+)", "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(registered) < 30 {
		t.Fatalf("%d versions in the library's source", len(registered))
	}
	for _, m := range registered {
		if m[1] == "rhcos" { // removed: it always fails
			continue
		}
		if !ours[m[1]+" "+m[2]] {
			t.Errorf("the library has %s %s", m[1], m[2])
		}
		delete(ours, m[1]+" "+m[2])
	}
	for version := range ours {
		t.Errorf("the library has no %s", version)
	}
}
