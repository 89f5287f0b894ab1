package compile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/template"
)

// TestByteOrderMark: a byte order mark before a source of any format is not served, and UTF-16 is named.
func TestByteOrderMark(t *testing.T) {
	for _, src := range []Source{
		{Type: TypeIgnition, Format: FormatButane, Config: "variant: fcos\nversion: 1.5.0\n"},
		{Type: TypeIgnition, Format: FormatIgnition, Config: `{"ignition":{"version":"3.4.0"}}`},
		{Type: TypeKickstart, Format: FormatKickstart, Config: "#version=RHEL9\nvnc --host=h\n"},
		{Type: TypeKickstart, Format: FormatKickstart, Template: true, Config: "text # {{ .Hostname }}\n"},
	} {
		plain, found := Compile(src)
		if plain == nil || len(found) > 0 {
			t.Fatalf("%s: %v", src.Format, found)
		}
		marked := src
		marked.Config = "\ufeff" + src.Config
		got, found := Compile(marked)
		if got == nil || len(found) > 0 || got.Hash != plain.Hash {
			t.Errorf("%s: %+v, %v", src.Format, got, found)
		}
		if src.Template {
			parsed, found := ParseTemplate(marked)
			if parsed == nil || strings.Contains(string(parsed.Render(&template.Facts{Hostname: "a"}).Text), "\ufeff") {
				t.Errorf("the template: %v", found)
			}
			continue
		}
		marked.Config = "\xff\xfe" + src.Config
		if _, found := Compile(marked); !found.HasError() || !strings.Contains(found.Summary(), "UTF-16") {
			t.Errorf("%s: %v", src.Format, found)
		}
	}
}

func TestArtifact(t *testing.T) {
	artifact, found := Compile(Source{Type: TypeIgnition, Format: FormatIgnition,
		Config: `{"ignition":{"version":"3.4.0"}}`})
	if len(found) > 0 {
		t.Fatal(found.Strings())
	}
	// printf '{"ignition":{"version":"3.4.0"}}' | sha256sum
	if want := "sha256:"; !strings.HasPrefix(artifact.Hash, want) || len(artifact.Hash) != len(want)+64 {
		t.Errorf("hash %s", artifact.Hash)
	}
	if artifact.IgnitionVersion != "3.4.0" {
		t.Errorf("version %s", artifact.IgnitionVersion)
	}
	artifact, _ = Compile(Source{Type: TypeKickstart, Format: FormatKickstart, Config: "text\n"})
	if artifact.IgnitionVersion != "" || string(artifact.Bytes) != "text\n" {
		t.Errorf("%+v", artifact)
	}
}

func TestTypeAndFormat(t *testing.T) {
	for _, src := range []Source{
		{Config: "x"}, {Type: TypeIgnition, Format: FormatKickstart, Config: "x"}, {Type: TypeKickstart, Format: FormatButane,
			Config: "x"},
		{Type: TypeKickstart, Format: FormatIgnition, Config: "{}"}, {Type: "talos", Format: "yaml", Config: "x"},
	} {
		artifact, found := Compile(src)
		if artifact != nil || !strings.Contains(found.Summary(), "does not go with type") {
			t.Errorf("%+v: %q", src, found.Strings())
		}
	}
}

func TestTooLarge(t *testing.T) {
	artifact, found := Compile(Source{Type: TypeKickstart, Format: FormatKickstart, Config: strings.Repeat("#", MaxSource+
		1)})
	if artifact != nil || !strings.Contains(found.Summary(), "larger than 2097152 bytes") {
		t.Errorf("%q", found.Strings())
	}
	if artifact, found = Compile(Source{Type: TypeKickstart, Format: FormatKickstart, Config: strings.Repeat("#",
		MaxSource)}); artifact == nil {
		t.Errorf("%q", found.Strings())
	}
}

// TestLargeValid holds what people do have against the bounds: they must let it
// pass, in each language.
func TestLargeValid(t *testing.T) {
	var many strings.Builder
	many.WriteString("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n")
	for i := range 5000 {
		fmt.Fprintf(&many, "    - path: /etc/app/conf.d/%d.conf\n      mode: 0644\n      contents:\n        inline: |\n   "+
			"       key = %d\n", i, i)
	}
	line := strings.Repeat("0123456789 abcdefghijklmnopqrstuvwxyz", 2)
	for name, source := range map[string]string{
		"5,000 small files": many.String(),
		"2 MiB in one file": fill(fcos+"storage:\n  files:\n    - path: /a\n      contents:\n        inline: |\n",
			"          "+line+"\n", ""),
		"2 MiB in 100 files": numbered(fcos+"storage:\n  files:\n", "    - path: /f%d\n      contents:\n        inline: |\n"+
			strings.Repeat("          "+line+"\n", 200), "", all),
		"2 MiB in 1000 files": numbered(fcos+"storage:\n  files:\n", "    - path: /f%d\n      contents:\n        inline: |\n"+
			strings.Repeat("          "+line+"\n", 20), "", all),
		"500 units and users": numbered(numbered(fcos+"systemd:\n  units:\n",
			"    - name: u%d.service\n      enabled: true\n      contents: |\n        [Unit]\n        [Install]\n        "+
				"WantedBy=multi-user.target\n", "passwd:\n  users:\n", 500),
			"    - name: u%d\n      ssh_authorized_keys: [ssh-ed25519 AAAA%d]\n", "", 500),
	} {
		t.Run(name, func(t *testing.T) {
			artifact, found := Compile(Source{Type: TypeIgnition, Format: FormatButane, Config: source})
			if artifact == nil {
				t.Fatalf("%d bytes: %.300s", len(source), found.Summary())
			}
			// What was compiled can be stored as an Ignition config, if it is not larger.
			if len(artifact.Bytes) > MaxSource {
				return
			}
			again, found := Compile(Source{Type: TypeIgnition, Format: FormatIgnition, Config: string(artifact.Bytes)})
			if again == nil || again.Hash != artifact.Hash {
				t.Errorf("its output is refused: %.300s", found.Summary())
			}
		})
	}
}

func FuzzCompile(f *testing.F) {
	formats := []Source{{Type: TypeIgnition, Format: FormatButane}, {Type: TypeIgnition, Format: FormatIgnition},
		{Type: TypeKickstart, Format: FormatKickstart}}
	for _, g := range goldens(f) {
		for i, format := range formats {
			if format.Format == g.src.Format {
				f.Add(uint8(i), g.src.Config)
			}
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, config string) {
		src := formats[int(format)%len(formats)]
		src.Config = config
		artifact, found := Compile(src)
		if (artifact == nil) != found.HasError() {
			t.Fatalf("artifact %v beside %q", artifact, found.Strings())
		}
		if strings.Contains(found.Summary(), "library failed on this config") {
			t.Fatalf("panic: %s", found.Summary())
		}
		again, _ := Compile(src)
		if (artifact == nil) != (again == nil) {
			t.Fatal("compiles only at times")
		}
		if artifact == nil {
			return
		}
		if !bytes.Equal(artifact.Bytes, again.Bytes) || artifact.Hash != again.Hash {
			t.Fatal("compiles to different bytes")
		}
		switch src.Format {
		case FormatButane:
			// What Butane makes is valid Ignition, newline and all.
			if r, found := Compile(Source{Type: TypeIgnition, Format: FormatIgnition,
				Config: string(artifact.Bytes)}); r == nil && !ignition.IsExperimental(artifact.IgnitionVersion) {
				t.Fatalf("the output is refused: %s", found.Summary())
			}
		default:
			if string(artifact.Bytes) != strings.TrimPrefix(config, "\ufeff") {
				t.Fatal("the bytes are not the source's")
			}
		}
		if summary := found.Summary(); len(summary) > 2048 {
			t.Fatalf("a summary of %d bytes", len(summary))
		}
	})
}
