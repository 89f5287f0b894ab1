package compile

import (
	"strings"
	"testing"
)

func TestMistakesSayWhatTheSourceIs(t *testing.T) {
	const head = "variant: fcos\nversion: 1.5.0\n"
	for name, c := range map[string]struct {
		format, source string
		message        string // of the first finding, with its place
		hint           string
	}{
		"Ignition as Butane": {
			FormatButane, `{"ignition": {"version": "3.4.0"}}`,
			"line 1:1: the config is an Ignition config in JSON, and its format is butane", "format: ignition",
		},
		"Butane as Ignition": {
			FormatIgnition, "# web\n" + head,
			"line 1:1: the config is a Butane config, and its format is ignition", "format: butane",
		},
		"cloud-config as Butane": {
			FormatButane, "#cloud-config\nusers:\n  - name: a\n",
			"line 1:1: the config is a cloud-init config, and its format is butane", "not served",
		},
		"Talos as Butane": {
			FormatButane, "version: v1alpha1\nmachine:\n  type: worker\n",
			"line 1:1: the config is a Talos machine config, and its format is butane", "--assets-dir",
		},
		"a manifest as Butane": {
			FormatButane, "apiVersion: v1\nkind: List\n",
			"line 1:1: the config is a Kubernetes manifest, and its format is butane", "the source alone",
		},
		"Butane as a kickstart": {
			FormatKickstart, head, "line 1:1: the config is a Butane config, and its format is kickstart", "format: butane",
		},
		"autoinstall as a kickstart": {
			FormatKickstart, "#cloud-config\nautoinstall:\n",
			"line 1:1: the config is a cloud-init config, and its format is kickstart", "not served",
		},
		"AutoYaST as Butane": {
			FormatButane, "<?xml version=\"1.0\"?>\n<profile/>\n",
			"line 1:1: the config is an XML document, and its format is butane", "--assets-dir",
		},
		"an action in quotes": {
			FormatButane, head + "storage:\n  files:\n    - path: /etc/hostname\n      contents:\n        inline: \"{{ .Hostname }}\"\n",
			"line 7:18: {{ .Hostname }} is not rendered: the config is no template",
			"set spec.template: true in the IgnitionConfig; a plain file is",
		},
		"an action without quotes": {
			FormatButane, head + "storage:\n  files:\n    - path: {{ .Hostname }}\n",
			"line 5:13: {{ .Hostname }} is not rendered: the config is no template",
			"set spec.template: true in the IgnitionConfig; a plain file is",
		},
		"an action in a kickstart": {
			FormatKickstart, "network --hostname={{ .Hostname }}\n",
			"line 1:20: {{ .Hostname }} is not rendered: the config is no template",
			"set spec.template: true in the IgnitionConfig; a plain file is",
		},
	} {
		src := Source{Type: TypeIgnition, Format: c.format, Config: c.source}
		if c.format == FormatKickstart {
			src.Type = TypeKickstart
		}
		_, found := Compile(src)
		ok := false
		for _, f := range found {
			ok = ok || f.String() == c.message && strings.Contains(f.Hint, c.hint)
		}
		if !ok {
			t.Errorf("%s: found\n%s\nwant %s", name, strings.Join(found.Strings(), "\n"), c.message)
		}
	}
}

func TestOtherProgramsTemplatesAreNoMistake(t *testing.T) {
	source := "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /a\n      contents:\n        inline: " +
		"\"podman ps --format '{{.Names}} {{.Labels}}'; ansible {{ hostvars.IP }}\"\n"
	artifact, found := Compile(Source{Type: TypeIgnition, Format: FormatButane, Config: source})
	if artifact == nil || len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestSourceOfAnotherKindInAKickstartIsAWarning(t *testing.T) {
	artifact, found := Compile(Source{
		Type: TypeKickstart, Format: FormatKickstart,
		Config: "# preseed\nd-i debian-installer/locale string en_US\n",
	})
	if artifact == nil || found.HasError() || !strings.Contains(strings.Join(found.Strings(), "\n"), "a preseed file") {
		t.Errorf("found %v", found)
	}
}
