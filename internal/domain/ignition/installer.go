package ignition

import (
	"encoding/json"
	"strings"
)

// oldestInstaller is a version that every client of spec 3 reads; others read one of spec 2, which has units as well.
const oldestInstaller = "3.0.0"

// Installer returns the config with which a live system of Flatcar installs its system on a disk, with the config at a
// URL, and restarts. It asks for that as the live system itself would: accept and userAgent are the headers of the
// client. asked is the version in its request, or empty. If the client reads no version, there is no config, and reason
// is a sentence without a full stop.
func Installer(accept, userAgent, asked, device, url string) (config []byte, reason string) {
	wanted, reason := Negotiate(ParseAccept(accept), userAgent, asked, oldestInstaller)
	if len(wanted) == 0 {
		return nil, reason
	}
	type unit struct {
		Name     string `json:"name"`
		Enabled  bool   `json:"enabled"`
		Contents string `json:"contents"`
	}
	var c struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
		Systemd struct {
			Units []unit `json:"units"`
		} `json:"systemd"`
	}
	c.Ignition.Version = wanted[0]
	c.Systemd.Units = []unit{{"glowplug-install.service", true, installerUnit(accept, userAgent, device, url)}}
	config, _ = json.Marshal(c) // a struct of texts
	return config, ""
}

// installerUnit is the unit that installs.
func installerUnit(accept, userAgent, device, url string) string {
	curl := "/usr/bin/curl --fail --silent --show-error --retry 60 --retry-delay 5 --retry-connrefused"
	if accept != "" {
		curl += " --header " + word("Accept: "+accept)
	}
	if userAgent != "" {
		curl += " --user-agent " + word(userAgent)
	}
	return `[Unit]
Description=Install Flatcar, with the config of this machine
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
StandardOutput=journal+console
StandardError=journal+console
ExecStart=` + curl + ` --output /run/glowplug.ign ` + word(url) + `
ExecStart=/usr/bin/flatcar-install -d ` + word(device) + ` -i /run/glowplug.ign
ExecStart=/usr/bin/systemctl --no-block reboot

[Install]
WantedBy=multi-user.target
`
}

// word returns a text as one argument of a command in a unit (systemd.service(5), "Command lines"): without characters of
// control, and with those doubled that begin a variable.
func word(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(text) + `"`
}
