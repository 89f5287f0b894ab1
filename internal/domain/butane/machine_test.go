package butane

import (
	"slices"
	"testing"
)

func TestWarnsOfWhatFailsOnlyOnTheMachine(t *testing.T) {
	const source = `variant: fcos
version: 1.5.0
passwd:
  users:
    - name: core
      ssh_authorized_keys:
        - ssh-ed25519 AAAA
storage:
  luks:
    - device: /dev/a
`
	_, found := Translate([]byte(source))
	want := []string{
		"line 7:11: $.passwd.users.0.ssh_authorized_keys.0: the SSH key cannot be parsed: sshd refuses it, " +
			"and nobody can log in with it",
		"line 10:7: $.storage.luks.0: the LUKS device has no name: it cannot be opened on the machine",
	}
	if got := found.Strings(); !slices.Equal(got, want) || found.HasError() {
		t.Errorf("got %q, want %q", got, want)
	}
}
