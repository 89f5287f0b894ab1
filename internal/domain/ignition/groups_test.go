package ignition

import (
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"no reason against any version", `{"ignition":{"version":"3.4.0"}}`, "2.0.0-2.4.0, 3.0.0-3.6.0"},
		{"one reason", `{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldExist":["quiet"]}}`,
			"2.0.0-2.4.0 $.kernelArguments: it is a field of spec 3.3.0 and later, " +
				"3.0.0-3.2.0 $.kernelArguments: it is a field of spec 3.3.0 and later, 3.3.0-3.6.0"},
		{"single versions", `{"ignition":{"version":"2.4.0","proxy":{"noProxy":["a"]}},` +
			`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"sizeMiB":1,"startMiB":1,"label":"a"}]}]}}`,
			"2.0.0-2.2.0 $.ignition.proxy: it is a field of spec 2.4.0 and 3.1.0 and later; " +
				"$.storage.disks.0.partitions.0.sizeMiB: it is a field of spec 2.3.0 to 2.4.0 and 3.0.0 and later; " +
				"$.storage.disks.0.partitions.0.startMiB: it is a field of spec 2.3.0 to 2.4.0 and 3.0.0 and later, " +
				"2.3.0 $.ignition.proxy: it is a field of spec 2.4.0 and 3.1.0 and later, 2.4.0, " +
				"3.0.0 $.ignition.proxy: it is a field of spec 2.4.0 and 3.1.0 and later, 3.1.0-3.6.0"},
		{"an experimental version", `{"ignition":{"version":"2.2.0-experimental"}}`,
			"2.0.0-2.1.0, 2.2.0-experimental, 2.2.0-2.4.0, 3.0.0-3.6.0"},
	} {
		forms, err := Servable([]byte(tt.raw))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var all Specs
		for _, group := range Groups(forms) {
			if all&SpecsIn(group.String()) != 0 {
				t.Errorf("%s: %s has versions of the groups before it", tt.name, group)
			}
			all |= SpecsIn(group.String())
			got = append(got, strings.TrimSpace(group.String()+" "+strings.Join(Listed(group.Losses, Loss.String), "; ")))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: got %s\nwant %s", tt.name, got, tt.want)
		}
		for _, f := range forms {
			if all&SpecsOf(f.Version) == 0 {
				t.Errorf("%s: %s is in no group", tt.name, f.Version)
			}
		}
	}
}

func TestSpecsIn(t *testing.T) {
	for versions, want := range map[string]Specs{
		"2.2.0": SpecsOf("2.2.0"), "2.2.0-experimental": SpecsOf("2.2.0-experimental"),
		"2.1.0-2.3.0": SpecsOf("2.1.0", "2.2.0", "2.3.0"), "3.5.0-3.6.0": SpecsOf("3.5.0", "3.6.0"),
		"": 0, "3": 0, "3.0.0-": 0, "-3.0.0": 0, "3.0.0-3.9.0": 0, "3.2.0-3.0.0": 0,
	} {
		if got := SpecsIn(versions); got != want {
			t.Errorf("%q: got %b, want %b", versions, got, want)
		}
	}
}
