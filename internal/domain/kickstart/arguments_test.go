package kickstart

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refused are lines that the installer of RHEL 10 refuses, with what is said of them.
var refused = []struct{ line, want string }{
	{"network --bootproto=dhpc", "1:9: network: --bootproto must be one of dhcp, bootp, static, ibft, query"},
	{"network --bootproto dhpc", "1:21: network: --bootproto must be one of dhcp, bootp, static, ibft, query"},
	{"network --onboot=maybe", "1:9: network: --onboot must be one of on, yes, true, 1, off, no, false, 0"},
	{"network --activate=yes", "1:9: network: --activate takes no value"},
	{"network --ip", "1:9: network: --ip has no value"},
	{"part / --size=10G", "1:8: part: --size must be a whole number"},
	{"part --size=1000", "1:1: part: the mount point is missing"},
	{"part / /home --size=1", "1:8: part: there are too many arguments"},
	{"part / --sise=1000", "1:8: part: there is no option --sise"},
	{"part / --on=sda", "1:8: part: --on could be --onbiosdisk, --ondisk or --onpart"},
	{"part / --resize --size=5", "1:1: part: --resize needs --onpart"},
	{"logvol / --vgname=v --name=n",
		"1:1: logvol: one of --size, --percent, --recommended, --hibernation, --useexisting or --noformat is missing"},
	{"logvol / --vgname=v --name=n --size=1 --percent=2",
		"1:1: logvol: only one of --size and --percent can be given"},
	{"logvol / --vgname=v --name=n --percent=101",
		"1:30: logvol: --percent must be a whole number from 0 to 100"},
	{"raid / --device=md0 --level=1",
		"1:1: raid: one of a list of members, --useexisting or --noformat is missing"},
	{"raid / --device=md0 --level=7 a b", "1:21: raid: --level must be one of 0, 1, 4, 5, 6, 10, " +
		"RAID0, RAID1, RAID4, RAID5, RAID6, RAID10"},
	{"volgroup vg --pesize=big pv.1", "1:13: volgroup: --pesize must be a whole number"},
	{"user --uid=5", "1:1: user: --name is missing"},
	{"rootpw --iscrypted", "1:1: rootpw: one of a password or --lock is missing"},
	{"url", "1:1: url: one of --url, --mirrorlist or --metalink is missing"},
	{"repo --name=a --baseurl=x --metalink=y",
		"1:1: repo: only one of --baseurl and --metalink can be given"},
	{"bootloader --location=mrb", "1:12: bootloader: --location must be one of mbr, partition, none, boot"},
	{"timezone", "1:1: timezone: one of a time zone or --utc is missing"},
	{"clearpart -all", "1:11: clearpart: there is no option -all"},
	{"reboot now", "1:8: reboot: only options stand after it, which begin with --"},
	{`bootloader --append="quiet`, "1:21: a quote is not closed on this line"},
	{`part / \`, "1:8: a backslash does not continue a line in a kickstart"},
	{"  part / --size=x", "1:10: part: --size must be a whole number"},
	{"%packages --nobase\n%end", "1:11: %packages: there is no option --nobase"},
	{"%packages --default --nocore\n%end",
		"1:1: %packages: only one of --default and --nocore can be given"},
	{"%post --interpreter\n%end", "1:7: %post: --interpreter has no value"},
}

func TestArguments(t *testing.T) {
	for _, tt := range refused {
		got := strings.Join(withoutHints(Check([]byte(tt.line+"\n"), "RHEL10")), "; ")
		if got != "line "+tt.want {
			t.Errorf("%s:\ngot  %s\nwant line %s", tt.line, got, tt.want)
		}
	}
}

// taken are kickstarts that every version takes.
var taken = []string{
	"autopart --type=LVM --encrypted --passphrase=''\n",
	"mount /dev/sda1 / --reformat\n",
	`lang en_US.UTF-8 --addsupport=de_DE,fr_FR # a comment
keyboard --vckeymap=us --xlayouts='us','de (nodeadkeys)'
timezone Europe/Berlin --utc
rootpw --iscrypted $6$salt$hash
user --name=admin --groups=wheel,users --password="a # b" --uid=1000
group --name users --gid=-1
network --bootproto=static --ip=10.0.0.2 --netmask 255.255.255.0 --onboot=Yes --device=link
network --hostname=$HOST
url --url="http://example.com/os/?a=b"
repo --name=extras --baseurl=http://example.com/ --cost=5
bootloader --location=mbr --append="quiet --x=1" --timeout 5
zerombr
clearpart --all --initlabel --drives=sda,sdb
ignoredisk --only-use=sda
part /boot --fstype xfs --size=1_024 --ondisk sda
partition pv.1 --size=1 --grow --ondrive=sda
volgroup vg --pesize=4096 pv.1
volgroup vg pv.1 pv.2
logvol / --vgname=vg --name=root --percent 50 --fst=xfs
raid /data --level=raid1 --device=data raid.1 raid.2
firewall --enabled --ssh --port=80:tcp,443:tcp
selinux --enforcing
services --disabled=a --enabled b,c
sshkey --username=root "ssh-ed25519 AAAA me@example.com"
reboot --eject
%pre --interpreter=/usr/bin/python3 --log /tmp/x
part / --size=big
%end
%packages --ignoremissing --multilib --timeout=30
@core --optional
%end
%post --nochroot --erroronfail --logfile=/x
%end
`,
}

func TestTakenArguments(t *testing.T) {
	for _, version := range append(Versions(), "") {
		for _, kickstart := range taken {
			if got := Check([]byte(kickstart), version).Strings(); len(got) > 0 {
				t.Errorf("%s: %q", version, got)
			}
		}
	}
}

// TestLayouts: the installer refuses two layouts of the disks, a partition without a size and a mount point
// that is declared twice; the parser takes some of them.
func TestLayouts(t *testing.T) {
	const together = " cannot be given together"
	for _, tt := range []struct {
		kickstart string
		want      []string
	}{
		{"autopart\npart / --size=1\npart /home --size=1\n", []string{"line 2:1: part and autopart (line 1)" + together}},
		{"reqpart\npart / --size=1\nautopart\n", []string{"line 3:1: autopart and part (line 2)" + together,
			"line 3:1: autopart and reqpart (line 1)" + together}},
		{"mount /dev/sda1 /\nautopart\n", []string{"line 2:1: autopart and mount (line 1)" + together}},
		{"reqpart\npart / --size=1\n", nil},
		{"part /\n", []string{"line 1:1: part: one of --size, --recommended, --hibernation or --onpart is missing"}},
		{"part / --onpart=sda1 --noformat\npart swap --recommended\npart swap --hibernation\n", nil},
		{"part pv.1 --size=1\nvolgroup v pv.1\nlogvol / --vgname=v --name=a --size=1\npart / --size=1\n",
			[]string{"line 4:6: part: the mount point is in line 3 already"}},
		{"mount /dev/sda1 /\nmount /dev/sda2 /\nmount /dev/sda3 none --reformat\nmount /dev/sda4 none\n",
			[]string{"line 2:17: mount: the mount point is in line 1 already"}},
		{"btrfs none --label=r a\nbtrfs / --subvol --name=root r\nbtrfs /home --subvol --name=home r\n", nil},
		{"realm\n", []string{"line 1:1: realm: the word join or the realm is missing"}},
		{"realm join --computer-ou=x example.com\n", nil},
		{"%post\nautopart\npart /\n%end\nautopart\n", nil},
	} {
		if got := withoutHints(Check([]byte(tt.kickstart), "F43").Tidy()); !slices.Equal(got, tt.want) {
			t.Errorf("%q:\ngot  %q\nwant %q", tt.kickstart, got, tt.want)
		}
	}
}

// TestTypographicQuotes: what a word processor makes of quotes and dashes is none to the installer.
func TestTypographicQuotes(t *testing.T) {
	for kickstart, want := range map[string]string{
		"bootloader --append=“quiet”\n": "line 1:21: “ is a typographic quote, and quotes nothing",
		"rootpw --lock —x\n":            "line 1:15: — is a typographic dash, and begins no option",
		"user --name=a --gecos=\"“A”\"\n# “quoted”\n%post\necho “x”\n%end\ntext # – a comment\n": "",
	} {
		found := withoutHints(Check([]byte(kickstart), ""))
		if want == "" && len(found) > 0 || want != "" && !slices.Contains(found, want) {
			t.Errorf("%s: %q, want %q", kickstart, found, want)
		}
	}
}

// TestVersionOfTheFirstLine: #version= chooses the release that is checked, where none is asked for.
func TestVersionOfTheFirstLine(t *testing.T) {
	const removed = `line 2:1: command "vnc" is removed: the installer of F45 refuses it`
	for _, tt := range []struct{ first, version, want string }{
		{"#version=RHEL9", "", ""},
		{"#version=RHEL9.4\r", "", "line 1:1: the lines end with CR LF: a script in the kickstart would fail"},
		{"#version=F43", "", `line 2:1: command "vnc" is deprecated in F43`},
		{"#version=RHEL9", "F45", removed},
		{"#version=DEVEL", "", removed},
		{"# a comment", "", removed},
		{"#version=RHEL7", "", `line 1:1: there is no kickstart version "RHEL7": the kickstart is checked for F45; ` + removed},
	} {
		got := strings.Join(withoutHints(Check([]byte(tt.first+"\nvnc --host=h\n"), tt.version)), "; ")
		if got != tt.want {
			t.Errorf("%s, %q: %q, want %q", tt.first, tt.version, got, tt.want)
		}
	}
}

// TestArgumentsOfAnyVersion: without a version, what some version takes is taken.
func TestArgumentsOfAnyVersion(t *testing.T) {
	for _, tt := range []struct{ line, version, want string }{
		{"bootloader --upgrade", "", ""},
		{"bootloader --upgrade", "RHEL8", ""},
		{"bootloader --upgrade", "F45", "line 1:12: bootloader: there is no option --upgrade"},
		{"bootloader --upgrade --x", "", "line 1:22: bootloader: there is no option --x"},
		{"harddrive --biospart=80p1 --dir=/x", "", ""},
		{"btrfs / --x", "", ""}, // RHEL 8 ignores it
		{"ignoredisk --interactive --drives=sda", "RHEL8", ""},
		{"updates", "F45", "line 1:1: updates: a URL is missing"},
		{"part / --fstype=btrfs --size=1", "", ""},
		{"part / --fstype=btrfs --size=1", "RHEL9", "line 1:1: part: --fstype cannot be btrfs"},
	} {
		if got := strings.Join(withoutHints(Check([]byte(tt.line), tt.version)), "; "); got != tt.want {
			t.Errorf("%s, %q: got %q, want %q", tt.line, tt.version, got, tt.want)
		}
	}
	hint := Check([]byte("bootloader --upgrade"), "F45")[0].Hint
	if want := "it is an option of RHEL8"; hint != want {
		t.Errorf("hint %q, want %q", hint, want)
	}
}

// TestSecretsStayOut: what may be a password is not in a message.
func TestSecretsStayOut(t *testing.T) {
	for _, line := range []string{"rootpw one hunter2", "user --name=a hunter2", "user --passwort=hunter2"} {
		got := withoutHints(Check([]byte(line), ""))
		if len(got) == 0 || strings.Contains(strings.Join(got, ""), "hunter2") {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{`a  b	c # d`, []string{"a", "b", "c"}},
		{`a#b c`, []string{"a"}},
		{`--x="a b"'c # d' ""`, []string{"--x=a bc # d", ""}},
		{`"a\"b\n" 'c\' \ d`, []string{`a"b\n`, `c\`, " d"}},
	} {
		words, broken := split(tt.line)
		var got []string
		for _, w := range words {
			got = append(got, w.text)
		}
		if broken.column > 0 || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v", tt.line, got, broken)
		}
	}
}

// verdicts reads versions and kickstarts as JSON, and prints a line for each that
// pykickstart refuses.
const verdicts = `
import json, sys, warnings
from pykickstart.parser import KickstartParser
from pykickstart.version import makeVersion
warnings.simplefilter("ignore")
for version, kickstart in json.load(sys.stdin):
    try:
        KickstartParser(makeVersion(version)).readKickstartFromString(kickstart)
    except Exception as e:
        print(json.dumps([version, kickstart]))
`

// TestArgumentsAgreeWithPykickstart holds the lines of these tests against the
// installer's own parser, where it is installed.
func TestArgumentsAgreeWithPykickstart(t *testing.T) {
	if exec.Command("python3", "-c", "import pykickstart.version").Run() != nil {
		t.Skip("needs python3 with pykickstart, of which Debian has no package")
	}
	var ask [][2]string
	for _, version := range Versions() {
		for _, kickstart := range taken {
			ask = append(ask, [2]string{version, kickstart})
		}
	}
	var want []string
	for _, r := range refused {
		ask = append(ask, [2]string{"RHEL10", r.line + "\n"})
		want = append(want, r.line+"\n")
	}
	in, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", verdicts)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(out) {
		var pair [2]string
		if err := json.Unmarshal(line, &pair); err != nil {
			t.Fatal(err)
		}
		got = append(got, pair[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (- ours, + pykickstart)\n%s", diff)
	}
}
