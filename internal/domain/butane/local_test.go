package butane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocals(t *testing.T) {
	source := `variant: fcos
version: 1.7.0
ignition:
  config:
    merge: [{local: child.ign}, {inline: "local: x"}]
  security: {tls: {certificate_authorities: [{local: ca.pem}]}}
passwd: {users: [{name: core, ssh_authorized_keys_local: [a.pub, &k b.pub]}, {name: b, ssh_authorized_keys_local: [*k]}]}
storage:
  trees: [{local: tree}, {local: /other, path: /opt}]
  files:
    - path: /local
      contents: {local: a}
      append: [{local: "b"}]
    - path: /c
      contents: {local: null}
systemd:
  units: [{name: a.service, contents_local: a.service, dropins: [{name: b.conf, contents_local: b.conf}]}]
`
	want := []Local{
		{"child.ign", false, "$.ignition.config.merge.0.local", 5, 21},
		{"ca.pem", false, "$.ignition.security.tls.certificate_authorities.0.local", 6, 54},
		{"a.pub", false, "$.passwd.users.0.ssh_authorized_keys_local.0", 7, 59},
		{"b.pub", false, "$.passwd.users.0.ssh_authorized_keys_local.1", 7, 66},
		{"b.pub", false, "$.passwd.users.1.ssh_authorized_keys_local.0", 7, 66},
		{"tree", true, "$.storage.trees.0.local", 9, 19},
		{"/other", true, "$.storage.trees.1.local", 9, 34},
		{"a", false, "$.storage.files.0.contents.local", 12, 25},
		{"b", false, "$.storage.files.0.append.0.local", 13, 24},
		{"a.service", false, "$.systemd.units.0.contents_local", 17, 45},
		{"b.conf", false, "$.systemd.units.0.dropins.0.contents_local", 17, 97},
	}
	if diff := cmp.Diff(want, Locals([]byte(source))); diff != "" {
		t.Error(diff)
	}
	// A name in another spelling is the file that Butane opens.
	binary := "variant: fcos\nversion: 1.7.0\nstorage: {files: [{path: /a, contents: {!!binary bG9jYWw=: !!binary " +
		"Li4vc2VjcmV0}}]}\n"
	if found := Locals([]byte(binary)); len(found) != 1 || found[0].File != "../secret" ||
		found[0].Path != "$.storage.files.0.contents.local" {
		t.Errorf("%v", found)
	}
	for _, none := range []string{"", "variant: fcos\nversion: 1.5.0\n", "a: [", "- local: x", "local: {a: b}"} {
		if found := Locals([]byte(none)); len(found) > 0 {
			t.Errorf("%q: %v", none, found)
		}
	}
}
