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
	becomes(t, "3.5.0", "3.4.0", `"storage":{"luks":[{"cex":{"enabled":true},"device":"/dev/a","name":"a"}]}`, "$.storage.luks.0.cex")
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
	becomes(t, "2.4.0", "3.1.0", `"ignition":{"config":{"append":`+refs+`},"version":"VERSION"}`, `"ignition":{"config":{"merge":`+refs+`},"version":"VERSION"}`)
	tls := `"ignition":{"security":{"tls":{"certificateAuthorities":` + refs + `}},"version":"VERSION"}`
	becomes(t, "2.4.0", "3.1.0", tls, tls)
}

func TestFaultUsersCreateIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"passwd":{"users":[{"name":"a","create":{"uid":1000,"groups":["wheel"],"shell":"/bin/sh"}}]}`,
		`"passwd":{"users":[{"groups":["wheel"],"name":"a","shell":"/bin/sh","uid":1000}]}`)
}

func TestFaultMountCreateIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4","create":{"force":true,"options":["-q"]}}}]}`,
		`"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","options":["-q"],"wipeFilesystem":true}]}`)
	becomes(t, "2.4.0", "3.1.0", `"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4","create":{"options":["-q"]}}}]}`,
		"$.storage.filesystems.0.mount.create")
}

func TestFaultRootFilesystemIsDropped(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"storage":{"filesystems":[{"name":"root","mount":{"device":"/dev/a","format":"btrfs","wipeFilesystem":true}}]}`,
		`"storage":{"filesystems":[{"device":"/dev/a","format":"btrfs","path":"/","wipeFilesystem":true}]}`)
}

func TestFaultFalseUseOfALink(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"storage":{"files":[{"filesystem":"root","path":"/foobar","mode":420,"contents":{"source":"data:,a"}}],"links":[{"filesystem":"root","path":"/foo","target":"/x"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"mode":420,"overwrite":true,"path":"/foobar"}],"links":[{"path":"/foo","target":"/x"}]}`)
}

func TestFaultFilesystemOfALongerName(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0", `"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","path":"/foo"}],"links":[{"path":"/foobar","target":"x"},{"path":"/foo/bar","target":"x"}]}`,
		`"storage":{"filesystems":[{"mount":{"device":"/dev/a","format":"ext4"},"name":"/foo"}],"links":[{"filesystem":"root","path":"/foobar","target":"x"},{"filesystem":"/foo","path":"/bar","target":"x"}]}`)
}

func TestFaultUnsetModeChanges(t *testing.T) {
	becomes(t, "2.4.0", "3.1.0", `"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,a"}}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"mode":0,"overwrite":true,"path":"/a"}]}`)
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"contents":{"source":"data:,a"},"path":"/a"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"filesystem":"root","mode":420,"overwrite":false,"path":"/a"}]}`)
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"path":"/a"}],"directories":[{"path":"/b","user":{"id":0},"group":{"id":0}}]}`,
		"$.storage.directories.0.mode $.storage.files.0.mode")
}

func TestFaultFileWithoutContentsIsDropped(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"mode":384,"path":"/etc/x"}]}`,
		`"storage":{"files":[{"append":true,"filesystem":"root","mode":384,"path":"/etc/x"}]}`)
	becomes(t, "2.4.0", "3.2.0", `"storage":{"files":[{"append":true,"filesystem":"root","mode":384,"path":"/etc/x"}]}`,
		`"storage":{"files":[{"mode":384,"path":"/etc/x"}]}`)
}

// Spec 2 fails where it appends with overwrite false to a file that is there.
func TestFaultAppendWithoutOverwrite(t *testing.T) {
	becomes(t, "3.2.0", "2.4.0", `"storage":{"files":[{"append":[{"source":"data:,b"}],"contents":{"source":"data:,a"},"mode":420,"overwrite":true,"path":"/a"}]}`,
		`"storage":{"files":[{"contents":{"source":"data:,a"},"filesystem":"root","mode":420,"overwrite":true,"path":"/a"},{"append":true,"contents":{"source":"data:,b"},"filesystem":"root","path":"/a"}]}`)
}

// What it refuses as well.
func TestRefusals(t *testing.T) {
	becomes(t, "2.4.0", "3.6.0", `"storage":{"files":[{"filesystem":"root","path":"/a","mode":420,"contents":{"source":"oem:///a"}}]}`, "$.storage.files.0.contents.source")
	becomes(t, "2.3.0", "3.6.0", `"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"size":2048}]}]}`, "$.storage.disks.0.partitions.0.size")
	becomes(t, "3.1.0", "2.4.0", `"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"http://a/","verification":{"hash":"sha256-`+strings.Repeat("ab", 32)+`"}}}]}`, "$.storage.files.0.contents.verification")
	becomes(t, "3.6.0", "3.5.0", `"storage":{"files":[{"path":"/a","mode":2541}]}`, "$.storage.files.0.mode")
	becomes(t, "3.5.0", "3.6.0", `"storage":{"files":[{"path":"/a","mode":2541}]}`, "$.storage.files.0.mode")
	becomes(t, "3.6.0", "3.5.0", `"storage":{"luks":[{"name":"a","device":"/dev/a","clevis":{"custom":{"pin":"null","config":"{}"}}}]}`, "$.storage.luks.0.clevis.custom.pin")
	becomes(t, "3.3.0", "3.2.0", `"kernelArguments":{"shouldExist":["quiet"]}`, "$.kernelArguments")
	becomes(t, "3.2.0", "3.1.0", `"passwd":{"users":[{"name":"a","shouldExist":false}]},"storage":{"files":[{"path":"/a","contents":{"source":"gs://b/a"}}]}`, "$.passwd.users.0.shouldExist")
	becomes(t, "3.2.0", "2.4.0", `"systemd":{"units":[{"name":"a.service","mask":false}]}`, "$.systemd.units.0.mask")
	becomes(t, "2.4.0", "3.2.0", `"ignition":{"version":"VERSION","config":{"append":[{"source":"http://a/"}]},"proxy":{"httpProxy":"http://p/"}}`, "$.ignition.proxy.httpProxy")
	becomes(t, "3.4.0", "3.2.0", `"storge":{"a":1}`, "$.storge")
}

func TestNetworkdBecomesFiles(t *testing.T) {
	becomes(t, "2.4.0", "3.0.0", `"networkd":{"units":[{"name":"00-eth0.network","contents":"[Match]\nName=eth0","dropins":[{"name":"a.conf","contents":"[Match]\nName=eth1"}]}]}`,
		`"storage":{"files":[{"contents":{"source":"data:;base64,W01hdGNoXQpOYW1lPWV0aDA="},"mode":420,"overwrite":true,"path":"/etc/systemd/network/00-eth0.network"},`+
			`{"contents":{"source":"data:;base64,W01hdGNoXQpOYW1lPWV0aDE="},"mode":420,"overwrite":true,"path":"/etc/systemd/network/00-eth0.network.d/a.conf"}]}`)
}

func TestFilesOfAFilesystem(t *testing.T) {
	becomes(t, "2.4.0", "3.0.0", `"storage":{"filesystems":[{"name":"/var/lib/data","mount":{"device":"/dev/a","format":"ext4"}}],"files":[{"filesystem":"/var/lib/data","path":"/a","mode":420}]}`,
		`"storage":{"files":[{"contents":{"source":""},"mode":420,"overwrite":true,"path":"/var/lib/data/a"}],"filesystems":[{"device":"/dev/a","format":"ext4","path":"/var/lib/data"}]}`)
	becomes(t, "2.4.0", "3.0.0", `"storage":{"filesystems":[{"name":"data","mount":{"device":"/dev/a","format":"ext4"}}],"files":[{"filesystem":"data","path":"/a","mode":420}]}`,
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
	becomes(t, "3.4.0", "3.1.0", merge("merge", child("3.4.0", `,"kernelArguments":{"shouldExist":["a"]}`)), "$.ignition.config.merge.0.source.kernelArguments")
	becomes(t, "3.4.0", "3.1.0", merge("merge", "data:,no"), "$.ignition.config.merge.0.source")
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
