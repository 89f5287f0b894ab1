package ignition

import (
	"strings"
	"testing"
)

// becomes holds a conversion against the exact text, or, where want begins with "$",
// against the only field that is refused.
func becomes(t *testing.T, from, to, rest, want string) {
	t.Helper()
	raw := `{"ignition":{"version":"` + from + `"},` + rest + `}`
	if strings.HasPrefix(rest, `"ignition"`) {
		raw = "{" + strings.Replace(rest, "VERSION", from, 1) + "}"
	}
	out, losses, err := Convert([]byte(raw), to)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(want, "$") {
		var paths []string
		for _, l := range losses {
			paths = append(paths, l.Path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%s to %s: refused for %v, want %s", from, to, losses, want)
		}
		return
	}
	if len(losses) > 0 {
		t.Fatalf("%s to %s: refused for %v", from, to, losses)
	}
	if !strings.HasPrefix(want, `"ignition"`) {
		want = `"ignition":{"version":"` + to + `"},` + want
	}
	if want = "{" + strings.Replace(want, "VERSION", to, 1) + "}"; string(out) != want {
		t.Errorf("%s to %s:\ngot  %s\nwant %s", from, to, out, want)
	}
}

// The faults of ign-converter, each with what is done here instead.

func TestFaultCexIsDropped(t *testing.T) {
	becomes(t, "3.5.0", "3.4.0", `"storage":{"luks":[{"cex":{"enabled":true},"device":"/dev/a","name":"a"}]}`,
		"$.storage.luks.0.cex")
}

func TestFaultAdvertisementIsDropped(t *testing.T) {
	luks := `"storage":{"luks":[{"clevis":{"tang":[{"advertisement":"{}","thumbprint":"t","url":"https://t.example.com"}]},"device":"/dev/a","name":"a"}]}`
	becomes(t, "3.5.0", "3.4.0", luks, luks)
	becomes(t, "3.5.0", "3.3.0", luks, "$.storage.luks.0.clevis.tang.0.advertisement")
}

func TestFaultPanicWithoutWipePartitionEntry(t *testing.T) {
	disks := `"storage":{"disks":[{"device":"/dev/a","partitions":[{"label":"a","number":1,"sizeMiB":1}]}]}`
	becomes(t, "3.2.0", "2.4.0", disks, disks)
}

func TestFaultFalseDuplicateOfTwoConfigs(t *testing.T) {
	refs := `[{"source":"https://example.com/a"},{"source":"https://example.com/b"}]`
	becomes(t, "2.4.0", "3.1.0", `"ignition":{"config":{"append":`+refs+`},"version":"VERSION"}`,
		`"ignition":{"config":{"merge":`+refs+`},"version":"VERSION"}`)
	tls := `"ignition":{"security":{"tls":{"certificateAuthorities":` + refs + `}},"version":"VERSION"}`
	becomes(t, "2.4.0", "3.1.0", tls, tls)
}

func TestFaultUsersCreateIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0",
		`"passwd":{"users":[{"name":"a","create":{"uid":1000,"groups":["wheel"],"shell":"/bin/sh"}}]}`,
		`"passwd":{"users":[{"groups":["wheel"],"name":"a","shell":"/bin/sh","uid":1000}]}`)
}

func TestFaultMountCreateIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0",
		`"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4","create":{"force":true,"options":["-q"]}}}]}`,
		`"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","options":["-q"],"wipeFilesystem":true}]}`)
	becomes(t, "2.4.0", "3.1.0",
		`"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4","create":{"options":["-q"]}}}]}`,
		"$.storage.filesystems.0.mount.create")
}

func TestFaultRootFilesystemIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0",
		`"storage":{"filesystems":[{"name":"root","mount":{"device":"/dev/a","format":"btrfs","wipeFilesystem":true}}]}`,
		`"storage":{"filesystems":[{"device":"/dev/a","format":"btrfs","path":"/","wipeFilesystem":true}]}`)
}

func TestFaultFalseUseOfALink(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0",
		`"storage":{"files":[{"filesystem":"root","path":"/foobar","mode":420,"contents":{"source":"data:,a"}}],"links":[{"filesystem":"root","path":"/foo","target":"/x"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"mode":420,"overwrite":true,"path":"/foobar"}],"links":[{"path":"/foo","target":"/x"}]}`)
}

func TestFaultFilesystemOfALongerName(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0",
		`"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","path":"/foo"}],"links":[{"path":"/foobar","target":"x"},{"path":"/foo/bar","target":"x"}]}`,
		`"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4"},"name":"/foo"}],"links":[{"filesystem":"root","path":"/foobar","target":"x"},{"filesystem":"/foo","path":"/bar","target":"x"}]}`)
}

func TestFaultUnsetModeChanges(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,a"}}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"mode":0,"overwrite":true,"path":"/a"}]}`)
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"contents":{"source":"data:,a"},"path":"/a"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"filesystem":"root","mode":420,"overwrite":false,"path":"/a"}]}`)
	becomes(t, "3.2.0", "2.4.0",
		`"storage":{"files":[{"path":"/a"}],"directories":[{"path":"/b","user":{"id":0},"group":{"id":0}}]}`,
		"$.storage.directories.0.mode $.storage.files.0.mode")
	for _, contents := range []string{"", `,"contents":{"source":"data:,a"}`} {
		becomes(t, "2.4.0", "3.1.0", `"storage":{"files":[{"filesystem":"root","path":"/a","append":true`+contents+`}]}`,
			"$.storage.files.0.mode")
	}
}

func TestFaultFileWithoutContentsIsDropped(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"mode":384,"path":"/etc/x"}]}`,
		`"storage":{"files":[{"append":true,"filesystem":"root","mode":384,"path":"/etc/x"}]}`)
	becomes(t, "2.4.0", "3.2.0", `"storage":{"files":[{"append":true,"filesystem":"root","mode":384,"path":"/etc/x"}]}`,
		`"storage":{"files":[{"mode":384,"path":"/etc/x"}]}`)
}

// Spec 2 fails where it appends with overwrite false to a file that is there.
func TestFaultAppendWithoutOverwrite(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0",
		`"storage":{"files":[{"append":[{"source":"data:,b"}],"contents":{"source":"data:,a"},"mode":420,"overwrite":true,"path":"/a"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"filesystem":"root","mode":420,"overwrite":true,"path":"/a"},{"append":true,"contents":{"source":"data:,b"},"filesystem":"root","path":"/a"}]}`)
}

// What it refuses as well.
func TestRefusals(t *testing.T) {
	becomes(t, "2.4.0", "3.6.0",
		`"storage":{"files":[{"filesystem":"root","path":"/a","mode":420,"contents":{"source":"oem:///a"}}]}`,
		"$.storage.files.0.contents.source")
	becomes(t, "2.3.0", "3.6.0", `"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"size":2048}]}]}`,
		"$.storage.disks.0.partitions.0.size")
	becomes(t, "3.1.0", "2.4.0",
		`"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"http://a/","verification":{"hash":"sha256-`+
			strings.Repeat("ab", 32)+`"}}}]}`, "$.storage.files.0.contents.verification")
	becomes(t, "3.6.0", "3.5.0", `"storage":{"files":[{"path":"/a","mode":2541}]}`, "$.storage.files.0.mode")
	becomes(t, "3.5.0", "3.6.0", `"storage":{"files":[{"path":"/a","mode":2541}]}`, "$.storage.files.0.mode")
	becomes(t, "3.6.0", "3.5.0",
		`"storage":{"luks":[{"name":"a","device":"/dev/a","clevis":{"custom":{"pin":"null","config":"{}"}}}]}`,
		"$.storage.luks.0.clevis.custom.pin")
	becomes(t, "3.3.0", "3.2.0", `"kernelArguments":{"shouldExist":["quiet"]}`, "$.kernelArguments")
	becomes(t, "3.2.0", "3.1.0",
		`"passwd":{"users":[{"name":"a","shouldExist":false}]},"storage":{"files":[{"path":"/a","contents":{"source":"gs://b/a"}}]}`, "$.passwd.users.0.shouldExist")
	becomes(t, "3.2.0", "2.4.0", `"systemd":{"units":[{"name":"a.service","mask":false}]}`, "$.systemd.units.0.mask")
	becomes(t, "2.4.0", "3.2.0",
		`"ignition":{"version":"VERSION","config":{"append":[{"source":"http://a/"}]},"proxy":{"httpProxy":"http://p/"}}`,
		"$.ignition.proxy.httpProxy")
	becomes(t, "3.4.0", "3.2.0", `"storge":{"a":1}`, "$.storge")
}

// A replace without a source replaces in spec 2, and says nothing in spec 3.
func TestFaultEmptyReplace(t *testing.T) {
	empty := `"ignition":{"config":{"replace":{}},"version":"VERSION"}`
	becomes(t, "2.4.0", "2.1.0", empty, empty)
	becomes(t, "2.4.0", "3.2.0", empty, "$.ignition.config.replace")
	becomes(t, "3.4.0", "3.2.0", empty, `"ignition":{"version":"VERSION"}`)
}

func TestNetworkdBecomesFiles(t *testing.T) {
	becomes(t, "2.4.0", "3.0.0",
		`"networkd":{"units":[{"name":"00-eth0.network","contents":"[Match]\nName=eth0","dropins":[{"name":"a.conf","contents":"[Match]\nName=eth1"}]}]}`,
		`"storage":{"files":[{"contents":{"source":"data:;base64,W01hdGNoXQpOYW1lPWV0aDA="},"mode":420,"overwrite":true,"path":"/etc/systemd/network/00-eth0.network"},`+
			`{"contents":{"source":"data:;base64,W01hdGNoXQpOYW1lPWV0aDE="},"mode":420,"overwrite":true,"path":"/etc/systemd/network/00-eth0.network.d/a.conf"}]}`)
}

func TestFilesOfAFilesystem(t *testing.T) {
	becomes(t, "2.4.0", "3.0.0",
		`"storage":{"filesystems":[{"name":"/var/lib/data","mount":{"device":"/dev/a","format":"ext4"}}],"files":[{"filesystem":"/var/lib/data","path":"/a","mode":420}]}`,
		`"storage":{"files":[{"contents":{"source":""},"mode":420,"overwrite":true,"path":"/var/lib/data/a"}],"filesystems":[{"device":"/dev/a","format":"ext4","path":"/var/lib/data"}]}`)
	becomes(t, "2.4.0", "3.0.0",
		`"storage":{"filesystems":[{"name":"data","mount":{"device":"/dev/a","format":"ext4"}}],"files":[{"filesystem":"data","path":"/a","mode":420}]}`,
		"$.storage.filesystems.0.name")
}

func TestChildren(t *testing.T) {
	child := func(version, rest string) string {
		return dataURL([]byte(`{"ignition":{"version":"` + version + `"}` + rest + `}`))
	}
	merge := func(key, source string) string {
		return `"ignition":{"config":{"` + key + `":[{"source":"` + source + `"}]},"version":"VERSION"}`
	}
	becomes(t, "3.4.0", "3.1.0", merge("merge", child("3.4.0", "")), merge("merge", child("3.1.0", "")))
	becomes(t, "3.4.0", "3.1.0", merge("merge", child("3.0.0", "")), merge("merge", child("3.0.0", "")))
	becomes(t, "3.4.0", "2.4.0", merge("merge", child("3.4.0", "")), merge("append", child("2.4.0", "")))
	becomes(t, "3.4.0", "3.1.0", merge("merge", child("3.2.0", "")), "$.ignition.config.merge.0.source")
	becomes(t, "3.4.0", "3.1.0", merge("merge", child("3.4.0", `,"kernelArguments":{"shouldExist":["a"]}`)),
		"$.ignition.config.merge.0.source.kernelArguments")
	becomes(t, "3.4.0", "3.1.0", merge("merge", "data:,no"), "$.ignition.config.merge.0.source")
}

// What several configs come to differs between the majors where they declare the
// same: spec 3 merges by key, spec 2 carries out one after the other.
func TestFaultChildrenAreConvertedEachForItself(t *testing.T) {
	with := func(version, key, rest string, children ...string) string {
		var refs []string
		for _, c := range children {
			refs = append(refs, `{"source":"`+dataURL([]byte(c))+`"}`)
		}
		return `"ignition":{"config":{"` + key + `":[` + strings.Join(refs, ",") + `]},"version":"` + version + `"}` + rest
	}
	three := func(rest string) string { return `{"ignition":{"version":"3.2.0"},` + rest + `}` }
	two := func(rest string) string { return `{"ignition":{"version":"2.4.0"},` + rest + `}` }
	file3 := func(p, more string) string {
		return `"storage":{"files":[{"path":"` + p + `","mode":384,"contents":{"source":"data:,x"}` + more + `}]}`
	}
	file2 := func(p, more string) string {
		return `"storage":{"files":[{"filesystem":"root","path":"` + p + `","mode":420,"contents":{"source":"data:,x"}` +
			more + `}]}`
	}
	var3 := `"storage":{"filesystems":[{"device":"/dev/a","format":"xfs","path":"/var"}]}`
	var2 := `"storage":{"filesystems":[{"name":"/var","mount":{"device":"/dev/a","format":"xfs"}}]}`
	users := `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA x"]}]}`
	const first = "$.ignition.config.merge.0.source"
	for _, c := range []struct{ name, from, to, parent, want string }{
		{"a file of both", "3.2.0", "2.4.0", with("VERSION", "merge", ","+file3("/a", ""),
			three(file3("/a", `,"overwrite":true`))), first + ".storage.files.0.path"},
		{"a link over a file", "3.2.0", "2.4.0", with("VERSION", "merge", ","+file3("/a", ""),
			three(`"storage":{"links":[{"path":"/a","target":"/b"}]}`)), first + ".storage.links.0.path"},
		{"two children", "3.2.0", "2.4.0", with("VERSION", "merge", "", three(file3("/a", "")),
			three(file3("/a", `,"overwrite":true`))), "$.ignition.config.merge.1.source.storage.files.0.path"},
		{"a grandchild", "3.2.0", "2.4.0", with("VERSION", "merge", ","+file3("/a", ""), "{"+with("3.2.0", "merge", "",
			three(file3("/a", "")))+"}"),
			first + ".ignition.config.merge.0.source.storage.files.0.path"},
		{"a child in the parent's filesystem", "3.2.0", "2.4.0", with("VERSION", "merge", ","+var3,
			three(file3("/var/lib/x", ""))), first + ".storage.files.0.path"},
		{"a parent in the child's filesystem", "3.2.0", "2.4.0", with("VERSION", "merge", ","+file3("/var/lib/x", ""),
			three(var3)), "$.storage.files.0.path"},
		{"a RAID", "3.2.0", "2.4.0", with("VERSION", "merge",
			`,"storage":{"raid":[{"name":"r","level":"raid1","devices":["/dev/a","/dev/b"]}]}`,
			three(`"storage":{"raid":[{"name":"r","level":"raid1","devices":["/dev/c","/dev/d"]}]}`)), first +
			".storage.raid.0.name"},
		{"a user", "3.2.0", "2.4.0", with("VERSION", "merge", ","+users, three(users)), first + ".passwd.users.0.name"},
		{"a user in the child's filesystem", "3.2.0", "2.4.0", with("VERSION", "merge", ","+users, three(var3)), first +
			".storage.filesystems.0.path"},
		{"a unit", "3.2.0", "2.4.0", with("VERSION", "merge", `,"systemd":{"units":[{"name":"a.service","enabled":true}]}`,
			three(`"systemd":{"units":[{"name":"a.service","enabled":false}]}`)), first + ".systemd.units.0.enabled"},
		{"a file of both, up", "2.4.0", "3.2.0", with("VERSION", "append", ","+file2("/a", ""), two(file2("/a", ""))),
			"$.ignition.config.append.0.source.storage.files.0.path"},
		{"a filesystem of the parent, up", "2.4.0", "3.2.0", with("VERSION", "append", ","+var2, two(file2("/var/x", ""))),
			"$.ignition.config.append.0.source.storage.files.0.path"},
		{"a networkd unit and its file, up", "2.4.0", "3.2.0", with("VERSION", "append",
			`,"networkd":{"units":[{"name":"a.network","contents":"[Match]"}]}`,
			two(file2("/etc/systemd/network/a.network", ""))), "$.ignition.config.append.0.source.storage.files.0.path"},
	} {
		t.Run(c.name, func(t *testing.T) { becomes(t, c.from, c.to, c.parent, c.want) })
	}
	// What they declare each for itself is given, and what says different things of
	// one unit.
	for _, child := range []string{
		three(file3("/b", "")),
		three(`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"b.conf","contents":"[Unit]"}]}]}`),
	} {
		parent := `{` + with("3.2.0", "merge", `,"systemd":{"units":[{"name":"a.service","enabled":true}]},`+file3("/a", ""),
			child) + `}`
		if _, losses, err := Convert([]byte(parent), "2.4.0"); err != nil || len(losses) > 0 {
			t.Errorf("%s: %v %v", child, losses, err)
		}
	}
}

// Users, groups and units are no nodes: spec 3 writes them to the filesystems that
// it has mounted by then, spec 2 to the root.
func TestFaultFilesystemOverHomes(t *testing.T) {
	three := func(p, rest string) string {
		return `"storage":{"filesystems":[{"device":"/dev/a","format":"xfs","path":"` + p + `"}]},` + rest
	}
	users := func(more string) string { return `"passwd":{"users":[{"name":"core"` + more + `}]}` }
	units := `"systemd":{"units":[{"name":"a.service","enabled":true}]}`
	const refused = "$.storage.filesystems.0.path"
	for p, rest := range map[string]string{"/home": users(""), "/var": users(""), "/srv": users(`,"homeDir":"/srv/core"`),
		"/etc": units} {
		becomes(t, "3.2.0", "2.4.0", three(p, rest), refused)
	}
	becomes(t, "2.4.0", "3.2.0", `"storage":{"filesystems":[{"name":"/etc","mount":{"device":"/dev/a","format":"xfs"}}]},`+
		units, "$.storage.filesystems.0.name")
	for p, rest := range map[string]string{"/srv": users(""), "/home/other": users(""), "/var": units, "/": units} {
		if _, losses, err := Convert([]byte(`{"ignition":{"version":"3.2.0"},`+three(p, rest)+`}`), "2.4.0"); err != nil ||
			len(losses) > 0 {
			t.Errorf("%s: %v %v", p, losses, err)
		}
	}
}

// The library's type of 2.3.0 embeds security.tls, and under a name.
func TestCertificatesOfEverySpec2(t *testing.T) {
	tls := `"ignition":{"security":{"tls":{"certificateAuthorities":[{"source":"data:,a"}]}},"version":"VERSION"}`
	becomes(t, "2.4.0", "2.3.0", tls, tls)
	becomes(t, "2.3.0", "2.2.0", tls, tls)
	becomes(t, "2.3.0", "2.1.0", tls, "$.ignition.security")
	if _, r := Validate([]byte(`{` + strings.Replace(tls, "VERSION", "2.3.0", 1) + `}`)); len(r) > 0 {
		t.Error(r.Strings())
	}
}
