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
		{`"passwd":{"groups":[{"gid":7}]}`, "3.0.0", "$.passwd.groups.0: the group has no name"},
		{`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA me"]}]}`, "3.4.0",
			"$.passwd.users.0.sshAuthorizedKeys.0: the SSH key cannot be parsed"},
		{`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["KEY"," ","# x","no-pty,command=\"a b\" KEY"]}]}`, "3.4.0", ""},
		{`"storage":{"raid":[{"devices":["/dev/a"],"level":"raid1"}]}`, "3.6.0", "$.storage.raid.0: the RAID has no name"},
		{`"storage":{"luks":[{"device":"/dev/a"}]}`, "3.2.0", "$.storage.luks.0: the LUKS device has no name"},
		{`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"label":"a","sizeMiB":-5}]}]}`, "3.6.0",
			"$.storage.disks.0.partitions.0.sizeMiB: the number is negative"},
		{`"storage":{"filesystems":[{"device":"/dev/a"}]}`, "3.6.0", "$.storage.filesystems.0: the filesystem has no format"},
		{`"storage":{"filesystems":[{"device":"/dev/a","format":"xfs","uuid":"x"}]}`, "3.6.0", "the uuid is not a UUID"},
		{`"storage":{"filesystems":[{"device":"/dev/a","format":"vfat","uuid":"1234-ABCD"}]}`, "3.6.0", ""},
		{`"storage":{"links":[{"path":"/a","target":""}]}`, "3.0.0", "$.storage.links.0: the link has no target"},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"s3://b/c","compression":"gzip"}}]}`, "3.6.0",
			"$.storage.files.0.contents: Ignition has no compression for s3"},
		{`"storage":{"files":[{"path":"/a","contents":{"source":"s3://b/c","compression":""}}]}`, "3.6.0", ""},
		{tang, "3.4.0", "$.storage.luks.0.clevis.tang.0: Ignition 2.20 and later drop the advertisement"},
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
