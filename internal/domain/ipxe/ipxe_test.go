package ipxe

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// router is the target of seed 0: an external one with all defaults.
func router() *Target {
	return &Target{Host: "192.168.10.1", IQN: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}
}

func TestURI(t *testing.T) {
	for want, target := range map[string]Target{
		"iscsi:192.168.10.1::::iqn.2000-02.com.mikrotik:cdrom-coreos-live": *router(),
		"iscsi:192.168.10.1::3261:1:iqn.a": {Host: "192.168.10.1", Port: 3261, LUN: 1,
			IQN: "iqn.a"},
		"iscsi:192.168.10.1:::1f:iqn.a": {Host: "192.168.10.1", Port: 3260, LUN: 31, IQN: "iqn.a"},
		"iscsi:[2001:db8::1]::::iqn.a":  {Host: "2001:db8::1", IQN: "iqn.a"},
		"iscsi:192.168.10.1::::iqn.a":   {Host: "::ffff:192.168.10.1", IQN: "iqn.a"},
		"iscsi:nas.g10.lo::::iqn.a":     {Host: "nas.g10.lo", IQN: "iqn.a"},
	} {
		if got, err := target.URI(); err != nil || got != want {
			t.Errorf("%+v: %q, %v; want %q", target, got, err, want)
		}
	}
	for _, target := range []Target{{}, {Host: "a", IQN: ""}, {Host: "a b", IQN: "iqn.a"},
		{Host: "a", IQN: "iqn.a\nshell"}, {Host: "${x}", IQN: "iqn.a"}} {
		if got, err := target.URI(); err == nil {
			t.Errorf("%+v: %q", target, got)
		}
	}
}

func TestParsePortal(t *testing.T) {
	for portal, want := range map[string]struct {
		host string
		port uint16
	}{
		"192.168.10.1": {"192.168.10.1", 0}, "192.168.10.1:3261": {"192.168.10.1", 3261}, "nas:1": {"nas", 1},
		"[2001:db8::1]:3261": {"2001:db8::1", 3261}, "[2001:db8::1]": {"2001:db8::1", 0}, "2001:db8::1": {"2001:db8::1", 0},
	} {
		if host, port := ParsePortal(portal); host != want.host || port != want.port {
			t.Errorf("%s: %s %d", portal, host, port)
		}
	}
}

// golden compares with a file; with UPDATE_GOLDEN=1 it writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".ipxe")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestScripts(t *testing.T) {
	must := func(script string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return script
	}
	chap := router()
	chap.CHAP = &CHAP{Username: "node", Password: "correct horse || shell"}
	golden(t, "boot", must(Boot("http://192.168.200.2:8082")))
	golden(t, "sanboot", must(Sanboot("host g10/server1", &Image{Name: "g10/coreos-live", Target: router()})))
	several := router()
	several.Others = []netip.AddrPort{netip.MustParseAddrPort("192.168.10.2:3260"), netip.MustParseAddrPort("[2001:db8::2]:3261")}
	golden(t, "servers", must(Sanboot("host g10/server1", &Image{Name: "g10/coreos-live", Target: several})))
	golden(t, "chap", must(Sanboot("host g10/server1", &Image{Name: "g10/coreos-live", Target: chap})))
	mutual := router()
	mutual.CHAP = &CHAP{Username: "node", Password: "one", MutualUsername: "target", MutualPassword: "two $"}
	golden(t, "chap-mutual", must(Sanboot("host g10/server1", &Image{Name: "g10/coreos-live", Target: mutual})))
	golden(t, "http", must(Sanboot("host g10/server1", &Image{Name: "g10/fedora",
		URL: "http://192.168.200.2:8082/iso/g10/fedora.iso?mac=52:54:00:00:00:01"})))
	golden(t, "kernel", must(Sanboot("host g10/server1", &Image{Name: "g10/fcos", Kernel: &Kernel{
		URL:    "http://192.168.200.2:8082/iso/g10/fcos@0123456789ab/files/kernel",
		Initrd: "http://192.168.200.2:8082/iso/g10/fcos@0123456789ab/files/initramfs",
		Args: []string{"ignition.firstboot", `dyndbg="file a.c +p"`,
			"coreos.live.rootfs_url=http://192.168.200.2:8082/iso/g10/fcos@0123456789ab/files/rootfs"},
	}})))
	golden(t, "local", Local("host g10/server1", "it is provisioned, annotate it to install again"))
	golden(t, "failed", Failed("host g10/server1", "there is no image g10/live"))
	golden(t, "menu", must(Menu("192.168.10.99", "52:54:00:00:00:99", []Image{
		{Name: "g10/coreos-live", Version: "CoreOS || shell ${password}", Target: router()},
		{Name: "g10/fedora", URL: "http://192.168.200.2:8082/iso/g10/fedora.iso"},
	})))
	golden(t, "menu-empty", must(Menu("", "", nil)))
}

// TestMenuEntriesDoNotFallThrough: after each image of the menu, whatever it boots from, the
// script jumps away, so that an image whose boot loader exits never boots the next one.
func TestMenuEntriesDoNotFallThrough(t *testing.T) {
	images := []Image{
		{Name: "a", Target: router()},
		{Name: "b", URL: "http://192.168.200.2:8082/iso/g10/b.iso"},
		{Name: "c", Kernel: &Kernel{URL: "http://192.168.200.2:8082/k", Initrd: "http://192.168.200.2:8082/i"}},
		{Name: "d", Target: router()},
	}
	script, err := Menu("", "", images)
	if err != nil {
		t.Fatal(err)
	}
	_, entries, _ := strings.Cut(script, "goto ${selected}\n:")
	blocks := strings.Split(entries, "\n:")
	if len(blocks) != len(images)+1 {
		t.Fatalf("%d entries, want %d and the disk:\n%s", len(blocks), len(images), script)
	}
	for i, block := range blocks[:len(images)] {
		if !strings.HasSuffix(block, "\ngoto local") {
			t.Errorf("entry %d does not end with a goto to the disk:\n%s", i, block)
		}
	}
	if last := blocks[len(images)]; last != "local\n"+Exit {
		t.Errorf("the disk is %q", last)
	}
}

func TestTemplate(t *testing.T) {
	m := Machine{
		Host: "server1", Namespace: "g10", Labels: map[string]string{"role": "builder", "rack": "7"},
		Server: "http://192.168.200.2:8082",
		Serial: "a\nshell\n || x ${y} &# z", Sanboot: "sanboot iscsi:192.168.10.1::::iqn.a\n",
	}
	parsed, err := ParseTemplate(`echo {{.Host}} {{.Serial}}
{{range $key, $value := .Labels}}echo {{$key}} {{$value}}
{{end}}{{if eq (index .Labels "role") "builder"}}kernel {{.Server}}/vmlinuz serial={{.Serial}}
{{end}}{{.Sanboot}}`)
	if err != nil {
		t.Fatal(err)
	}
	script, err := parsed.Render(m)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "template", script)
	if m.Serial[1] != '\n' {
		t.Error("the caller's value was changed")
	}
	for source, want := range map[string]string{
		"": "empty", "{{": "unclosed", "{{.Nothing}}": "Nothing",
		"{{range 1000000000}}{{end}}":                           "ranges over .Labels alone",
		"{{range or 1000000000 .Labels}}{{end}}":                "ranges over .Labels alone",
		"{{range $v := or 1000000000 .Labels}}{{end}}":          "ranges over .Labels alone",
		"{{range .Labels}}{{range $.Labels}}{{end}}{{end}}":     "not within a range",
		`{{$a := printf "%s%s" .Host .Host}}{{$a}}`:             "printf",
		`{{(print 1).Foo}}`:                                     "print",
		`{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`: "further templates",
		`{{template "ipxe"}}`:                                   "no templates",
		`{{call .Host}}`:                                        "call",
		strings.Repeat("x", MaxTemplate+1):                      "more than",
	} {
		if _, err := ParseTemplate(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %q", source, err, want)
		}
	}
}

// A kernel argument is words of its line and nothing else.
func TestArgument(t *testing.T) {
	for value, want := range map[string]string{
		"quiet": "quiet", "a=b": "a=b", ` a  b `: "a b", `x="y z"`: `x="y z"`,
		"": "", " ": "", `x="y`: "", "a\nshell": "a shell", "${mac}": "", "a || shell": "", "&&": "", "a;b": "", "#": "",
		"a`b": "", "\u2028": "",
	} {
		if got, err := Argument(value); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	for _, k := range []Kernel{
		{URL: "http://a/k", Initrd: "http://a/i", Args: []string{strings.Repeat("a ", 1100)}},
		{URL: "http://a/k", Initrd: "http://a/i", Args: []string{"a || b"}},
		{URL: "http://a/k x", Initrd: "http://a/i"}, {URL: "http://a/k", Initrd: ""},
	} {
		if script, err := Sanboot("a", &Image{Kernel: &k}); err == nil {
			t.Errorf("%+v: %s", k, script)
		}
	}
}

// FuzzScript proves that no value adds a line, a word of a command, an operator
// or a variable.
func FuzzScript(f *testing.F) {
	f.Add("192.168.10.1", "iqn.2000-02.com.mikrotik:cdrom", "user", "pass", "host g10/a", "text")
	f.Add("a\nshell", "iqn.a\r\nshell", "u\nv", "p || shell", "x ; shell", "${password}")
	f.Add("[::1]:3260", "&&", "#", "||", "\x00\u2028", "\\")
	f.Fuzz(func(t *testing.T, portal, iqn, user, pass, machine, shown string) {
		host, port := ParsePortal(portal)
		image := &Image{Name: shown, Version: machine, Target: &Target{Host: host, Port: port, IQN: iqn, CHAP: &CHAP{user,
			pass, "t" + pass, user}}}
		if script, err := Sanboot(machine, image); err == nil {
			expect(t, script, "#!ipxe", "echo glowplug: ", "set username", "set password", "set reverse-username",
				"set reverse-password", "sanboot iscsi:")
		}
		if script, err := Sanboot(machine, &Image{Name: shown, URL: portal}); err == nil {
			expect(t, script, "#!ipxe", "echo glowplug: ", "sanboot ")
		}
		text, hasExit := strings.CutSuffix(Local(machine, shown), Exit)
		if expect(t, text, "#!ipxe", "echo glowplug: "); !hasExit {
			t.Fatalf("no exit: %q", text)
		}
		expect(t, Failed(machine, shown), "#!ipxe", "echo glowplug: ", "exit 1")
		if script, err := Menu(machine, shown, []Image{*image}); err == nil {
			lines := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
			if strings.Count(script, "${") != 2 || len(lines) < 18 || len(lines) > 20 {
				t.Fatalf("the menu has %d lines:\n%s", len(lines), script)
			}
		}
		if script, err := Boot(portal); err == nil && strings.Count(script, "\n") != 13 {
			t.Fatalf("boot:\n%s", script)
		}
		parsed, err := ParseTemplate("kernel {{.Serial}} {{.Host}}{{range $k, $v := .Labels}} {{$k}}={{$v}}{{end}} end")
		if err != nil {
			t.Fatal(err)
		}
		script, err := parsed.Render(Machine{Serial: machine, Host: shown, Labels: map[string]string{user: pass}})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, script, "#!ipxe", "kernel ")
		for _, bad := range []string{"${", "||", "&&", ";", "#!ipxe\n#"} {
			if strings.Contains(script, bad) {
				t.Fatalf("%q in %q", bad, script)
			}
		}
	})
}

// expect compares the lines of a script with how they begin; none has an operator.
func expect(t *testing.T, script string, prefixes ...string) {
	t.Helper()
	lines := strings.Split(script, "\n")
	if len(lines) != len(prefixes)+1 || lines[len(prefixes)] != "" {
		t.Fatalf("%d lines, want %d:\n%s", len(lines)-1, len(prefixes), script)
	}
	for i, prefix := range prefixes {
		if !strings.HasPrefix(lines[i], prefix) {
			t.Fatalf("line %d is %q, want %q…", i+1, lines[i], prefix)
		}
		for _, field := range strings.Fields(lines[i]) {
			if field == "||" || field == "&&" || field == ";" || strings.Contains(field, "${") || i > 0 &&
				strings.HasPrefix(field, "#") || strings.HasSuffix(field, `\`) {
				t.Fatalf("line %d has %q: %q", i+1, field, lines[i])
			}
		}
		if strings.ContainsFunc(lines[i], func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("line %d has control characters: %q", i+1, lines[i])
		}
	}
	for _, line := range lines {
		if (strings.HasPrefix(line, "sanboot ") || strings.HasPrefix(line, "set ")) && len(strings.Fields(line)) > 3 {
			t.Fatalf("too many words: %q", line)
		}
	}
}

// TestMasked: marks stand for the token and for the names and passwords that a script sets, in whatever form.
func TestMasked(t *testing.T) {
	target := router()
	target.IQN += ":token:abcdef"
	target.CHAP = &CHAP{Username: "node", Password: "correct horse", MutualUsername: "target", MutualPassword: "two"}
	script, err := Sanboot("host g10/server1", &Image{Name: "g10/coreos-live", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	want := `
set username <chap username>
set password <chap password>
set reverse-username <chap username>
set reverse-password <chap password>
sanboot iscsi:192.168.10.1::::` + router().IQN + `:token:<token>
`
	if got := Masked(script, "abcdef"); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"": "", "echo set a name\n": "echo set a name\n", "set user x": "set user x", "set username": "set username",
		"  set  password:hex 61:62 && echo abcdef":   "  set  password <chap password> && echo abcdef",
		"set username\nset password a\n":             "set username\nset password <chap password>\n",
		"reset username x":                           "reset username x",
		"set password two words || set username a b": "set password <chap password> || set username <chap username>",
	} {
		if got := Masked(text, ""); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
