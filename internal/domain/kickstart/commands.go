package kickstart

import (
	"slices"
	"strings"
)

// state is the support of a command in a version of the installer.
type state uint8

const (
	unknown state = iota
	current
	deprecated
	removed
)

// version has the commands that a release of the installer knows.
type version struct {
	name     string
	commands map[string]state
}

// everywhere are the commands that every version takes.
const everywhere = `authselect autopart bootloader cdrom clearpart cmdline driverdisk eula fcoe
	firewall firstboot graphical group halt harddrive hmc ignoredisk iscsi iscsiname keyboard lang
	liveimg logging logvol mediacheck mount network nfs ostreesetup part partition poweroff raid
	realm reboot repo reqpart rescue rootpw selinux services shutdown skipx snapshot sshkey sshpw
	text timezone updates url user volgroup xconfig zerombr zfcp zipl`

// versions are those that a kickstart can be checked for, the newest last. What
// each takes, warns of and refuses is what pykickstart 3.74, the parser of the
// installer, makes of it: pykickstart/handlers/control.py and the files beside it.
var versions = []version{
	newVersion("RHEL8",
		"auth authconfig autostep method module nvdimm rhsm syspurpose vnc",
		"btrfs device deviceprobe dmraid install multipath",
		""),
	newVersion("RHEL9",
		"auth authconfig module nvdimm ostreecontainer rhsm syspurpose timesource vnc",
		"autostep btrfs method",
		"device deviceprobe dmraid install multipath"),
	newVersion("RHEL10",
		"bootc ostreecontainer rdp rhsm syspurpose timesource",
		"module vnc",
		"auth authconfig autostep btrfs device deviceprobe dmraid install method multipath nvdimm"),
	newVersion("F41",
		"btrfs ostreecontainer timesource vnc",
		"module nvdimm",
		"auth authconfig autostep device deviceprobe dmraid install method multipath"),
	newVersion("F42",
		"btrfs ostreecontainer timesource vnc",
		"module nvdimm",
		"auth authconfig autostep device deviceprobe dmraid install method multipath"),
	newVersion("F43",
		"bootc btrfs ostreecontainer rdp timesource",
		"module nvdimm vnc",
		"auth authconfig autostep device deviceprobe dmraid install method multipath"),
	newVersion("F44",
		"bootc btrfs ostreecontainer rdp timesource",
		"module nvdimm vnc",
		"auth authconfig autostep device deviceprobe dmraid install method multipath"),
	newVersion("F45",
		"bootc btrfs ostreecontainer rdp timesource",
		"",
		"auth authconfig autostep device deviceprobe dmraid install method module multipath nvdimm vnc"),
}

func newVersion(name, taken, warned, refused string) version {
	v := version{name, map[string]state{}}
	for state, words := range map[state]string{current: everywhere + " " + taken, deprecated: warned, removed: refused} {
		for _, word := range strings.Fields(words) {
			v.commands[word] = state
		}
	}
	return v
}

// Versions lists the versions that a kickstart can be checked for: RHEL's and then
// Fedora's, the newest last.
func Versions() []string {
	var names []string
	for _, v := range versions {
		names = append(names, v.name)
	}
	return names
}

// find returns a version by its name, and the newest for none.
func find(name string) (version, bool) {
	if name == "" {
		return versions[len(versions)-1], true
	}
	i := slices.IndexFunc(versions, func(v version) bool { return v.name == name })
	if i < 0 {
		return version{}, false
	}
	return versions[i], true
}

// elsewhere lists the versions that take a command.
func elsewhere(command string) string {
	var names []string
	for _, v := range versions {
		if s := v.commands[command]; s == current || s == deprecated {
			names = append(names, v.name)
		}
	}
	return strings.Join(names, ", ")
}

// remedies say what to write in the place of a command, where it is known.
var remedies = map[string]string{
	"auth":       "use authselect",
	"authconfig": "use authselect",
	"install":    "leave the line out: url, nfs, cdrom or harddrive say that it is an installation",
	"method":     "name the source by its own command: url, nfs, cdrom or harddrive",
	"multipath":  "leave the line out: multipath devices are found by themselves",
	"dmraid":     "leave the line out",
	"vnc":        "newer installers have rdp",
}
