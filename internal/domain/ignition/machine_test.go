package ignition

import (
	"strings"
	"testing"
)

const goodKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@example.com"

func TestWarnsOfWhatFailsOnlyOnTheMachine(t *testing.T) {
	const tang = `"storage":{"luks":[{"name":"a","device":"/dev/a","clevis":{"tang":[` +
		`{"advertisement":"{}","thumbprint":"t","url":"https://t.example.com"}]}}]}`
	for _, tt := range []struct{ section, version, want string }{
		{`"passwd":{"users":[{"name":""}]}`, "3.6.0", "$.passwd.users.0: the user has no name"},
		{`"passwd":{"groups":[{"gid":7}]}`, "3.0.0", "$.passwd.groups.0: the group has no name: groupadd refuses it"},
		{`"passwd":{"users":[{"shouldExist":true}]}`, "3.2.0", "$.passwd.users.0: the user has no name: useradd refuses it"},
		{`"passwd":{"users":[{"shouldExist":false}]}`, "3.2.0",
			"$.passwd.users.0: the user has no name: Ignition removes nothing"},
		{`"passwd":{"users":[{"shouldExist":false,"name":"core"}]}`, "3.2.0", ""},
		{`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA me"]}]}`, "3.4.0",
			"$.passwd.users.0.sshAuthorizedKeys.0: the SSH key cannot be parsed"},
		{`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["KEY"," ","# x","no-pty,command=\"a b\" KEY"]}]}`, "3.4.0", ""},
		{`"storage":{"raid":[{"devices":["/dev/a"],"level":"raid1"}]}`, "3.6.0", "$.storage.raid.0: the RAID has no name"},
		{`"storage":{"luks":[{"device":"/dev/a"}]}`, "3.2.0", "$.storage.luks.0: the LUKS device has no name"},
		{`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"label":"a","sizeMiB":-5}]}]}`, "3.6.0",
			"$.storage.disks.0.partitions.0.sizeMiB: the size is negative: sgdisk refuses it"},
		{`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"label":"a","startMiB":-5}]}]}`, "3.6.0",
			"$.storage.disks.0.partitions.0.startMiB: the start is negative: sgdisk counts it from the end of the disk"},
		{`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":-1,"label":"a"}]}]}`, "3.6.0",
			"$.storage.disks.0.partitions.0.number: the partition number is negative: sgdisk takes the next free one"},
		{`"storage":{"raid":[{"name":"a","devices":["/dev/a"],"level":"raid1","spares":-1}]}`, "3.6.0",
			"$.storage.raid.0.spares: the number of spares is negative: mdadm demands more devices"},
		{`"storage":{"filesystems":[{"device":"/dev/a"}]}`, "3.6.0", "$.storage.filesystems.0: the filesystem has no format"},
		{`"storage":{"filesystems":[{"device":"/dev/a","format":"xfs","uuid":"x"}]}`, "3.6.0", "the uuid is not a UUID"},
		{`"storage":{"filesystems":[{"name":"a","mount":{"device":"/dev/a","format":"xfs","uuid":"x"}}]}`, "2.2.0",
			"$.storage.filesystems.0.mount: the uuid is not a UUID"},
		{`"storage":{"links":[{"path":"/a","target":""}]}`, "3.0.0", "$.storage.links.0: the link has no target"},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"s3://b/c","compression":"gzip"}}]}`, "3.6.0",
			"$.storage.files.0.contents: Ignition has no compression for s3"},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"s3://b/c","compression":""}}]}`, "3.6.0", ""},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"arn:aws:s3:::b/c","compression":"gzip"}}]}`, "3.6.0",
			"$.storage.files.0.contents: Ignition has no compression for s3"},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA","compression":"gzip"}}]}`, "3.1.0", ""},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA","compression":"gzip"}}]}`, "3.0.0",
			"$.storage.files.0.contents: Ignition before 2.3 has no compression for data URLs"},
		{tang, "3.4.0", "$.storage.luks.0.clevis.tang.0: Ignition 2.19 and later drop the advertisement"},
		{tang, "3.5.0", ""},
	} {
		raw := `{"ignition":{"version":"` + tt.version + `"},` + "\n" + strings.ReplaceAll(tt.section, "KEY", goodKey) + `}`
		_, found := Validate([]byte(raw))
		got := strings.Join(found.Strings(), "; ")
		if found.HasError() || tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.section, got, tt.want)
		}
		if tt.want != "" && !strings.HasPrefix(got, "line 2:") {
			t.Errorf("%s: got no position: %q", tt.section, got)
		}
	}
}

// Each mkfs takes other uuids, as it was tried with the tools named in machine.go.
func TestUUIDsThatMkfsTakes(t *testing.T) {
	const id = "12345678-1234-1234-1234-123456789ABC"
	for _, tt := range []struct {
		format    string
		good, bad []string
	}{
		{"ext4", []string{id, "clear", "random", "time", "null", "RANDOM"}, []string{"", "x", id[1:], strings.ReplaceAll(id, "-", "")}},
		{"swap", []string{id, "clear", "random", "time", "RANDOM"}, []string{"", "null", "x"}},
		{"xfs", []string{id}, []string{"", "clear", "random", "null", "x"}},
		{"btrfs", []string{id, ""}, []string{"clear", "random", "null", "x"}},
		{"vfat", []string{"1234-ABCD", "1234abcd", "abc", "0x1234abcd"}, []string{"", "123456789", "12-34abcd", "clear", id}},
		{"none", []string{"x"}, nil},
	} {
		warned := func(uuid string) bool {
			_, found := Validate([]byte(`{"ignition":{"version":"3.6.0"},"storage":{"filesystems":[{"device":"/dev/a","format":"` +
				tt.format + `","uuid":"` + uuid + `"}]}}`))
			if found.HasError() {
				t.Fatal(found.Strings())
			}
			return len(found) > 0
		}
		for _, uuid := range tt.good {
			if warned(uuid) {
				t.Errorf("%s: a warning of %q, which mkfs takes", tt.format, uuid)
			}
		}
		for _, uuid := range tt.bad {
			if !warned(uuid) {
				t.Errorf("%s: no warning of %q, which mkfs refuses", tt.format, uuid)
			}
		}
	}
	_, found := Validate([]byte(`{"ignition":{"version":"3.6.0"},"storage":{"filesystems":[{"device":"/dev/a","format":"xfs"}]}}`))
	if len(found) > 0 {
		t.Error(found.Strings())
	}
}
