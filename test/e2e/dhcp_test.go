package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bootFiles are the boot files of each architecture of option 93 (RFC 4578 and the registry
// of the IANA), with the vendor class of the answer.
var bootFiles = map[int]string{
	0: "undionly.kpxe", 6: "ipxe-i386.efi", 7: "ipxe.efi", 9: "ipxe.efi", 11: "ipxe-arm64.efi",
	15: "http://192.168.10.2/ipxe-i386.efi HTTPClient", 16: "http://192.168.10.2/ipxe.efi HTTPClient",
	19: "http://192.168.10.2/ipxe-arm64.efi HTTPClient",
}

// dhcpSnippet returns the configuration of a DHCP server from docs/guides/dhcp.md: the code
// block behind a title.
func dhcpSnippet(t *testing.T, title string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/dhcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n"+title)
	_, text, opened := strings.Cut(text, "\n```")
	_, text, _ = strings.Cut(text, "\n") // the language of the block
	text, _, closed := strings.Cut(text, "\n```\n")
	if !found || !opened || !closed {
		t.Fatalf("docs/guides/dhcp.md has no configuration of %s", title)
	}
	return text + "\n"
}

// all returns the submatches of a pattern.
func all(pattern, text string) [][]string {
	return regexp.MustCompile("(?m)"+pattern).FindAllStringSubmatch(text, -1)
}

// joined returns the boot file with the vendor class of its answer.
func joined(file, class string) string { return strings.TrimSpace(file + " " + class) }

// selected are readers of the configurations: the boot file of each architecture.
var selected = map[string]func(text string) map[int]string{
	"dnsmasq:": func(text string) map[int]string {
		files, classes := map[string]string{}, map[string]string{}
		for _, m := range all(`^dhcp-boot=tag:!ipxe,tag:(\w+),(\S+)$`, text) {
			files[m[1]] = m[2]
		}
		for _, m := range all(`^dhcp-option-force=tag:!ipxe,tag:(\w+),60,(\S+)$`, text) {
			classes[m[1]] = m[2]
		}
		found := map[int]string{}
		for _, m := range all(`^dhcp-match=set:(\w+),option:client-arch,(\d+)$`, text) {
			n, _ := strconv.Atoi(m[2])
			found[n] = joined(files[m[1]], classes[m[1]])
		}
		return found
	},
	"ISC dhcpd:": func(text string) map[int]string {
		found := map[int]string{}
		for _, branch := range strings.Split(text, "elsif")[1:] {
			file, class := all(`filename "(.*)"`, branch), all(`vendor-class-identifier "(.*)"`, branch)
			for _, m := range all(`architecture-type = 00:([0-9a-f]{2})`, branch) {
				n, _ := strconv.ParseInt(m[1], 16, 32)
				found[int(n)] = file[0][1]
				if len(class) > 0 {
					found[int(n)] = joined(file[0][1], class[0][1])
				}
			}
		}
		return found
	},
	"Kea:": func(text string) map[int]string {
		found := map[int]string{}
		for _, class := range strings.Split(text, `{"name": "`)[1:] {
			for _, m := range all(`option\[93\]\.hex == 0x([0-9a-f]{4})`, class) {
				n, _ := strconv.ParseInt(m[1], 16, 32)
				found[int(n)] = all(`"boot-file-name": "(.*)"`, class)[0][1]
			}
			if strings.HasPrefix(class, "vendor-class-identifier") { // an option of the class before it
				for n, file := range found {
					if strings.HasPrefix(file, "http:") && !strings.Contains(file, " ") {
						found[n] = joined(file, all(`"data": "(.*?)"`, class)[0][1])
					}
				}
			}
		}
		return found
	},
	"RouterOS 7.": func(text string) map[int]string {
		values, sets := map[string]string{}, map[string]string{}
		for _, m := range all(`^add code=\d+ name=(\w+) value=s'(.*)'$`, text) {
			values[m[1]] = m[2]
		}
		for _, m := range all(`^add name=(\w+) options=(\w+),?(\w*)$`, text) {
			sets[m[1]] = joined(values[m[2]], values[m[3]])
		}
		found := map[int]string{}
		for _, m := range all(`^add name=\S+ .* code=93 matching-type=exact value=0x(\w{4}) option-set=(\w+)$`, text) {
			n, _ := strconv.ParseInt(m[1], 16, 32)
			found[int(n)] = sets[m[2]]
		}
		return found
	},
}

// TestDHCPByArchitecture: each DHCP configuration of the docs gives every firmware the build
// of iPXE for its architecture, and iPXE the script.
func TestDHCPByArchitecture(t *testing.T) {
	for _, title := range slices.Sorted(maps.Keys(selected)) {
		text := dhcpSnippet(t, title)
		if got := selected[title](text); !maps.Equal(got, bootFiles) {
			t.Errorf("%s\n got %v\nwant %v", title, got, bootFiles)
		}
		if !strings.Contains(text, "http://192.168.10.2:8082/boot.ipxe") {
			t.Errorf("%s iPXE does not get the script", title)
		}
	}
}

// TestDHCPSyntax: the DHCP servers accept the configurations of the docs.
func TestDHCPSyntax(t *testing.T) {
	for _, c := range []struct {
		title, command string
		args           []string
		before, after  string
		word           string // without which the server has to refuse it
	}{
		{"dnsmasq:", "dnsmasq", []string{"--test", "--conf-file=FILE"}, "", "", "dhcp-boot"},
		{"ISC dhcpd:", "dhcpd", []string{"-t", "-cf", "FILE"}, "subnet 192.168.10.0 netmask 255.255.255.0 {}\n", "",
			"filename"},
		{"Kea:", "kea-dhcp4", []string{"-t", "FILE"}, `{"Dhcp4": {`, "}}\n", "boot-file-name"},
	} {
		t.Run(c.command, func(t *testing.T) {
			needs(t, c.command)
			check := func(text string) (string, error) {
				file := filepath.Join(t.TempDir(), "dhcp.conf")
				if err := os.WriteFile(file, []byte(c.before+text+c.after), 0o644); err != nil {
					t.Fatal(err)
				}
				args := slices.Clone(c.args)
				for i := range args {
					args[i] = strings.Replace(args[i], "FILE", file, 1)
				}
				out, err := exec.CommandContext(t.Context(), c.command, args...).CombinedOutput()
				return string(out), err
			}
			text := dhcpSnippet(t, c.title)
			if out, err := check(text); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if out, err := check(strings.Replace(text, c.word, "no-word", 1)); err == nil {
				t.Errorf("it accepts everything:\n%s", out)
			}
		})
	}
}
