// Package kickstart checks Anaconda kickstart files: sections are closed, commands are
// known to the release of the installer, and so are their options. The file is served unchanged, and a finding is at
// most a warning, because the server does not know the release that a machine boots.
package kickstart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/report"
)

// sections are the sections that end with %end.
var sections = map[string]bool{
	"%packages": true, "%pre": true, "%pre-install": true, "%post": true, "%onerror": true,
	"%traceback": true, "%addon": true, "%anaconda": true, "%certificate": true,
}

// maxQuoted bounds a word that is quoted in a message, in bytes.
const maxQuoted = 40

// includes are the lines that begin with % and open no section.
var includes = map[string]bool{"%include": true, "%ksappend": true}

// Check returns the warnings of a kickstart file for a version of the installer, one of
// Versions; "" is the one that the first line names (#version=), or else the newest. The source is
// valid UTF-8. An error says that there is no such version.
func Check(source []byte, versionName string) report.Report {
	unknownVersion := ""
	if versionName == "" {
		versionName, unknownVersion = declaredVersion(source)
	}
	v, ok := find(versionName)
	if !ok {
		return report.ErrorWithHint("versions are "+strings.Join(Versions(), ", "),
			"there is no kickstart version %.40q", versionName)
	}
	c := checker{version: v, anyVersion: versionName == ""}
	if unknownVersion != "" {
		c.warn(1, fmt.Sprintf("there is no kickstart version %.40q: the kickstart is checked for %s", unknownVersion, v.name),
			"versions are "+strings.Join(Versions(), ", "))
	}
	number := 0
	for line := range bytes.Lines(source) {
		number++
		text := strings.TrimSuffix(string(line), "\n")
		c.lineEnd(number, text)
		c.line(number, strings.TrimSuffix(text, "\r"))
	}
	c.close()
	c.warnOfLineEnds()
	return c.report
}

type checker struct {
	version version
	// anyVersion says that no version was asked for: arguments that some version takes
	// are taken.
	anyVersion bool
	report     report.Report
	// open is the section of the line, with its first line; empty
	// between sections.
	open     string
	openLine int
	layout   layout
	// carriage is the line that ends with CR LF, 0 where none does: the first, or the first one of the
	// section inScript, whose interpreter is that of the line, where it names one.
	carriage              int
	inScript, interpreter string
}

func (c *checker) line(number int, line string) {
	word := firstWord(line)
	switch {
	case word == "", word[0] == '#':
	case word == "%end":
		if c.open == "" {
			c.warn(number, "%end closes no section", "")
		}
		c.open = ""
	case includes[word]:
		if words, _ := split(line); len(words) == 1 {
			c.warn(number, word+": the path is missing", "write "+word+" PATH, or a URL")
		}
	case sections[word]:
		// Inside a section this is where the one before was meant to end.
		c.close()
		c.open, c.openLine = word, number
		c.arguments(number, line)
	case c.open != "":
		// The body of a section: a script, or names of packages.
	case word[0] == '%':
		c.warn(number, fmt.Sprintf("section %s is not known", report.Clip(word, maxQuoted)),
			"known sections are "+knownSections)
		c.open, c.openLine = word, number
	default:
		c.command(number, word)
		if c.version.commands[word] == current {
			c.arguments(number, line)
		}
	}
}

// arguments checks what stands after a command or a section.
func (c *checker) arguments(number int, line string) {
	if c.full() {
		return
	}
	c.checkTyping(number, line)
	words, broken := split(line)
	if broken.column > 0 {
		c.add(number, broken)
		return
	}
	c.layOut(number, words)
	faults := checkArguments(c.version.name, words)
	if c.anyVersion && len(faults) > 0 {
		faults = agreed(faults, words)
	}
	for _, f := range faults {
		c.add(number, f)
	}
}

// agreed returns those of the faults of a line whose place every version objects to that
// takes the command.
func agreed(faults []fault, words []word) []fault {
	for _, v := range versions {
		switch state := v.commands[words[0].text]; {
		case state == deprecated:
			// The installer ignores the command, whatever its arguments.
			return nil
		case state != current && !sections[words[0].text]:
			continue
		}
		others := checkArguments(v.name, words)
		faults = slices.DeleteFunc(faults, func(f fault) bool {
			return !slices.ContainsFunc(others, func(o fault) bool { return o.column == f.column })
		})
	}
	return faults
}

const knownSections = "%packages, %pre, %pre-install, %post, %onerror, %traceback, %addon, %anaconda and %certificate"

// close warns of a section that is still open.
func (c *checker) close() {
	if c.open == "" {
		return
	}
	c.warn(c.openLine, fmt.Sprintf("section %s is not closed", report.Clip(c.open, maxQuoted)),
		"end it with a line that says %end")
	c.open = ""
}

func (c *checker) command(number int, word string) {
	name := c.version.name
	switch c.version.commands[word] {
	case removed:
		c.warn(number, fmt.Sprintf("command %q is removed: the installer of %s refuses it", word, name), remedies[word])
	case deprecated:
		c.warn(number, fmt.Sprintf("command %q is deprecated in %s", word, name), remedies[word])
	case unknown:
		hint := "an installer that does not know it stops; check the spelling"
		if has := elsewhere(word); has != "" {
			hint = "it is a command of " + has
		}
		c.warn(number, fmt.Sprintf("command %q is not known to %s", report.Clip(word, maxQuoted), name), hint)
	}
}

func (c *checker) warn(line int, message, hint string) {
	c.add(line, fault{1, message, hint})
}

func (c *checker) add(line int, f fault) {
	if c.full() {
		return
	}
	c.report = append(c.report, report.Finding{
		Severity: report.Warning, Line: line, Column: f.column, Message: f.message, Hint: f.hint,
	})
}

// full says that there are findings enough: whoever has more than this to mend is shown
// the rest next time.
func (c *checker) full() bool { return len(c.report) > 2*report.MaxFindings }

// firstWord returns the first word of a line. A line that begins with a space is a
// command as well: Anaconda strips it.
func firstWord(line string) string {
	word, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(line, " \t"), "\t", " "), " ")
	return word
}

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
