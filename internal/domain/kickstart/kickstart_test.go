package kickstart

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"glowplug/internal/domain/report"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name, source string
		want         []string
	}{
		{"clean", "lang en_US.UTF-8\n# comment\n\n%packages\n@core\n-plymouth\n%end\n%include /tmp/x.ks\n", nil},
		{"no newline at the end", "reboot\n%post\necho\n%end", nil},
		{"carriage returns", "text\r\nreboot\r\n",
			[]string{"line 1:1: the lines end with CR LF: a script in the kickstart would fail"}},
		{"carriage returns of a script", "text\r\n%post\r\necho\r\n%end\r\n%pre\r\necho\r\n%end\r\n",
			[]string{"line 3:1: the lines of %post end with CR LF: each command of the script gets a carriage return at " +
				"its end, and fails"}},
		{"carriage returns of an interpreter", "text\r\n%packages\r\n@core\r\n%end\r\n%post --erroronfail\r\n" +
			"#!/bin/bash\r\necho done > /root/done\r\n%end\r\n",
			[]string{`line 6:1: the lines of %post end with CR LF: the script interpreter becomes "/bin/bash\r", ` +
				"which does not exist, and the script fails"}},
		{"include without a path", "%include\n%post\n%include # later\n%end\n",
			[]string{"line 1:1: %include: the path is missing", "line 3:1: %include: the path is missing"}},
		{"section with options", "%post --nochroot --log=/root/x\nunknown words here\n%end\n", nil},
		{"include inside a section", "%packages\n%include /tmp/list\n%end\n", nil},
		{"removed", "text\ninstall\n", []string{`line 2:1: command "install" is removed: the installer of F45 refuses it`}},
		{"removed since", "vnc --host=h\n", []string{`line 1:1: command "vnc" is removed: the installer of F45 refuses it`}},
		{"unknown", "lnag de\n", []string{`line 1:1: command "lnag" is not known to F45`}},
		{"never closed", "text\n%pre\necho\n", []string{"line 2:1: section %pre is not closed"}},
		{"closed by the next", "%packages\n@core\n%post\necho\n%end\n",
			[]string{"line 1:1: section %packages is not closed"}},
		{"end without a section", "text\n%end\n", []string{"line 2:1: %end closes no section"}},
		{"unknown section", "%pst\necho\n%end\nreboot\n", []string{"line 1:1: section %pst is not known"}},
		{"indented", "  lnag\n\t%post\necho\n  %end\n", []string{`line 1:1: command "lnag" is not known to F45`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Check([]byte(tt.source), "")
			if got := withoutHints(r); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if r.HasError() {
				t.Error("a kickstart file is never refused for what it says")
			}
		})
	}
}

func TestCheckByVersion(t *testing.T) {
	for _, tt := range []struct{ command, versions, want, hint string }{
		{"text", "RHEL8 RHEL9 RHEL10 F41 F42 F43 F44 F45", "", ""},
		{"install", "RHEL8", `line 1:1: command "install" is deprecated in VERSION`,
			"leave the line out: url, nfs, cdrom or harddrive say that it is an installation"},
		{"install", "RHEL9 RHEL10 F41 F42 F43 F44 F45",
			`line 1:1: command "install" is removed: the installer of VERSION refuses it`,
			"leave the line out: url, nfs, cdrom or harddrive say that it is an installation"},
		{"vnc", "RHEL8 RHEL9 F41 F42", "", ""},
		{"vnc", "RHEL10 F43 F44", `line 1:1: command "vnc" is deprecated in VERSION`, "newer installers have rdp"},
		{"vnc", "F45", `line 1:1: command "vnc" is removed: the installer of VERSION refuses it`,
			"newer installers have rdp"},
		{"rdp", "RHEL10 F43 F44 F45", "", ""},
		{"rdp", "RHEL8 RHEL9 F41 F42", `line 1:1: command "rdp" is not known to VERSION`,
			"it is a command of RHEL10, F43, F44, F45"},
		{"rhsm --organization=o --activation-key=k", "RHEL8 RHEL9 RHEL10", "", ""},
		{"rhsm", "F41 F42 F43 F44 F45", `line 1:1: command "rhsm" is not known to VERSION`,
			"it is a command of RHEL8, RHEL9, RHEL10"},
		{"btrfs", "RHEL8 RHEL9", `line 1:1: command "btrfs" is deprecated in VERSION`, ""},
		{"btrfs", "RHEL10", `line 1:1: command "btrfs" is removed: the installer of VERSION refuses it`, ""},
		{"btrfs / --label=x sda1", "F41 F45", "", ""},
	} {
		for _, version := range strings.Fields(tt.versions) {
			r := Check([]byte(tt.command+"\n"), version)
			if got, want := strings.Join(withoutHints(r), "; "), strings.ReplaceAll(tt.want, "VERSION", version); got != want {
				t.Errorf("%s, %s: got %q, want %q", version, tt.command, got, want)
			} else if len(r) > 0 && r[0].Hint != tt.hint {
				t.Errorf("%s, %s: hint %q, want %q", version, tt.command, r[0].Hint, tt.hint)
			}
		}
	}
	if got := withoutHints(Check(nil, "F12").Errors()); !slices.Equal(got, []string{`there is no kickstart version "F12"`}) {
		t.Errorf("F12: %q", got)
	}
}

// pykickstart prints what its parsers make of each command of the versions asked for.
const pykickstart = `
import sys
from pykickstart.base import DeprecatedCommand, RemovedCommand
from pykickstart.version import makeVersion
for name in sys.argv[1:]:
    for word, command in makeVersion(name).commands.items():
        print(name, word, 3 if isinstance(command, RemovedCommand) else 2 if isinstance(command, DeprecatedCommand) else 1)
`

// TestAgreesWithPykickstart holds the table against the installer's own parser,
// where it is installed.
func TestAgreesWithPykickstart(t *testing.T) {
	if exec.Command("python3", "-c", "import pykickstart.version").Run() != nil {
		t.Skip("needs python3 with pykickstart, of which Debian has no package")
	}
	out, err := exec.CommandContext(t.Context(), "python3", append([]string{"-c", pykickstart}, Versions()...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(out)) {
		want = append(want, strings.TrimSpace(line))
	}
	for _, v := range versions {
		for word, state := range v.commands {
			got = append(got, fmt.Sprint(v.name, " ", word, " ", state))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- pykickstart, + ours)\n%s", diff)
	}
}

func TestCheckIsBounded(t *testing.T) {
	for _, line := range []string{"zz\n", "text --x\n", "text " + strings.Repeat("--x ", 1000) + "\n"} {
		if r := Check([]byte(strings.Repeat(line, 1_500_000/len(line))), ""); len(r) > 2*report.MaxFindings+1 {
			t.Errorf("%d findings", len(r))
		}
	}
}

func withoutHints(r report.Report) (lines []string) {
	for _, f := range r {
		lines = append(lines, f.String())
	}
	return lines
}
