package ignition

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

// MachineWarnings finds what the validation of Ignition accepts and what then fails, or
// does nothing, on the machine. The text is a valid config.
func MachineWarnings(raw []byte) report.Report {
	d, s, failure := read(raw)
	if failure != nil {
		return nil
	}
	return d.machineWarnings(s)
}

// nameless says what fails without a name, by the shape of the list: Ignition gives the
// empty name to useradd, groupadd, mdadm and cryptsetup (internal/exec of coreos/ignition).
var nameless = map[string]string{
	"$.passwd.users.0": "user", "$.passwd.groups.0": "group", "$.storage.raid.0": "RAID", "$.storage.luks.0": "LUKS device",
}

func (d *document) machineWarnings(s *spec) report.Report {
	var r report.Report
	warn := func(i int, format string, args ...any) {
		f := d.fail(i, fmt.Sprintf(format, args...), "")
		f.Severity = report.Warning
		r = append(r, *f)
	}
	for i := range d.nodes {
		switch shape := jsonscan.Fold(d.shape(i)); {
		case nameless[shape] != "" && d.member(i, "name") == "":
			warn(i, "the %s has no name: Ignition fails on the machine", nameless[shape])
		case isDimension(shape) && d.raw[d.nodes[i].Start] == '-':
			warn(i, "the number is negative: Ignition fails on the machine")
		case shape == "$.storage.filesystems.0" && s.major == 3:
			d.filesystemWarnings(i, warn)
		case shape == "$.storage.links.0" && d.member(i, "target") == "":
			warn(i, "the link has no target: Ignition fails on the machine")
		case strings.HasPrefix(shape, "$.passwd.users.0.sshauthorizedkeys.") && !isKey(d.text(i)):
			warn(i, "the SSH key cannot be parsed: sshd refuses it, and nobody can log in with it")
		case s.name == "3.4.0" && shape == "$.storage.luks.0.clevis.tang.0" && d.member(i, "advertisement") != "":
			// translateTang of config/v3_5/translate leaves it out; Ignition 2.20 was the first with it.
			warn(i, "Ignition 2.20 and later drop the advertisement of a config of spec 3.4.0: use spec 3.5.0")
		case strings.HasPrefix(d.member(i, "source"), "s3:") && d.member(i, "compression") != "":
			warn(i, "Ignition has no compression for s3 URLs and fails on the machine")
		}
	}
	return r
}

// text returns a string of the document, and "" for any other value.
func (d *document) text(i int) string {
	var s string
	_ = json.Unmarshal(d.raw[d.nodes[i].Start:d.nodes[i].End], &s)
	return s
}

// member returns a string of an object, and "" where it has none.
func (d *document) member(object int, key string) string {
	if d.kind(object) != '{' {
		return ""
	}
	for i := object + 1; i < len(d.nodes) && d.nodes[i].Parent >= object; i++ {
		if d.nodes[i].Parent == object && strings.EqualFold(d.nodes[i].Key, key) {
			return d.text(i)
		}
	}
	return ""
}

// isDimension reports whether a number of a partition or RAID must not be negative.
func isDimension(shape string) bool {
	rest, partition := strings.CutPrefix(shape, "$.storage.disks.0.partitions.0.")
	switch rest {
	case "sizemib", "startmib", "number", "size", "start":
		return partition
	}
	return shape == "$.storage.raid.0.spares"
}

var (
	uuid     = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	volumeID = regexp.MustCompile(`^[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}$`)
	// uuidWords are words that mkfs.ext4 and mkswap take.
	uuidWords = regexp.MustCompile(`^(clear|random|time)$`)
)

// filesystemWarnings judges a filesystem of spec 3. Ignition gives the uuid to mkfs as it is,
// and of vfat as a volume ID.
func (d *document) filesystemWarnings(i int, warn func(i int, format string, args ...any)) {
	format, id := d.member(i, "format"), d.member(i, "uuid")
	switch {
	case format == "":
		warn(i, "the filesystem has no format: Ignition does not make it")
	case id == "" || uuidWords.MatchString(id):
	case format == "vfat" && !volumeID.MatchString(id):
		warn(i, "the uuid of a vfat filesystem is 8 hexadecimal digits, such as 1234-ABCD: mkfs refuses it on the machine")
	case format != "vfat" && format != "none" && !uuid.MatchString(id):
		warn(i, "the uuid is not a UUID: mkfs refuses it on the machine")
	}
}

// isKey reports whether each line of a text is an SSH public key, with or without options. A
// key is its type and, in base64, a list of texts with their lengths of which the first is
// the type. Empty lines and comments are allowed, as in authorized_keys.
func isKey(text string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		good := len(words) == 0 || strings.HasPrefix(words[0], "#")
		for i := 0; i+1 < len(words) && !good; i++ {
			blob, err := base64.StdEncoding.DecodeString(words[i+1])
			good = err == nil && isBlob(blob, words[i])
		}
		if !good {
			return false
		}
	}
	return true
}

func isBlob(blob []byte, kind string) bool {
	for first := true; len(blob) > 0; first = false {
		if len(blob) < 4 || int64(len(blob)-4) < int64(binary.BigEndian.Uint32(blob)) {
			return false
		}
		n := 4 + int(binary.BigEndian.Uint32(blob))
		if first && string(blob[4:n]) != kind {
			return false
		}
		if blob = blob[n:]; strings.Contains(kind, "-cert-") {
			return true // has numbers, too
		}
		if len(blob) == 0 {
			return !first
		}
	}
	return false
}
