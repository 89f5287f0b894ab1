package ignition

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestInstaller: the config of an installer is one that the client reads, and its unit asks as the client would.
func TestInstaller(t *testing.T) {
	for _, c := range []struct{ accept, agent, asked, version string }{
		{"", "", "", "3.0.0"},
		{AcceptOf("3.3.0"), "Ignition/2.14.0", "", "3.0.0"},
		{AcceptOf("2.3.0"), "Ignition/v0.36.2", "", "2.3.0"},
		{AcceptOf("3.4.0"), "", "2.4.0", "2.4.0"},
		{"text/html", "", "", ""},
	} {
		config, reason := Installer(c.accept, c.agent, c.asked, "/dev/sda", "http://192.0.2.1:8082/api/v1/ignition?token=a")
		if (config == nil) != (c.version == "") || config == nil && reason == "" {
			t.Errorf("%+v: %s, %q", c, config, reason)
			continue
		}
		if config == nil {
			continue
		}
		if _, report := Validate(config); len(report) > 0 || !strings.Contains(string(config), `"version":"`+c.version+`"`) {
			t.Errorf("%+v: %s: %v", c, config, report)
		}
	}
	config, _ := Installer(`a"b`, "agent $HOME\n%n", "", `/dev/disk/by-id/a b"`, `http://192.0.2.1/?mac=1%202&b=\`)
	var parsed struct {
		Systemd struct{ Units []struct{ Contents string } }
	}
	if err := json.Unmarshal(config, &parsed); err == nil {
		t.Fatal("the client of a header that is none has", string(config))
	}
	config, _ = Installer("*/*", "agent $HOME\n%n", "", `/dev/disk/by-id/a b"`, `http://192.0.2.1/?mac=1%202&b=\`)
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	unit := parsed.Systemd.Units[0].Contents
	for _, line := range []string{
		`ExecStart=/usr/bin/curl --fail --silent --show-error --retry 60 --retry-delay 5 --retry-connrefused ` +
			`--header "Accept: */*" --user-agent "agent $$HOME%%n" --output /run/glowplug.ign "http://192.0.2.1/?mac=1%%202&b=\\"`,
		`ExecStart=/usr/bin/flatcar-install -d "/dev/disk/by-id/a b\"" -i /run/glowplug.ign`,
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s:\n%s", line, unit)
		}
	}
}
