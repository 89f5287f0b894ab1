package ignition

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
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

// What is said here was read in the source of Ignition 0.35 and 2.26, where no other release is
// named, and the tools were run as Ignition runs them (shadow 4.13, mdadm 4.2, sgdisk 1.0.9,
// mke2fs 1.47, mkswap 2.38, mkfs.xfs 6.1, mkfs.btrfs 6.2, mkfs.fat 4.2).

// nameless are the lists whose entries need a name, by their shape:
//   - user, group: EnsureUser and EnsureGroup of internal/exec/util/passwd.go (CreateGroup in spec
//     2) run useradd and groupadd with the empty name, which exit with 3. With shouldExist false
//     there is no such user, and they do nothing;
//   - RAID: createRaids of internal/exec/stages/disks/raid.go runs mdadm, which says "is an
//     invalid name for an md device (empty!)";
//   - LUKS: createLuks of internal/exec/stages/disks/luks.go opens it under the empty name, and
//     createCrypttabEntries of internal/exec/stages/files/filesystemEntries.go writes its key over
//     the directory of the keys and fails, or a line for clevis without the name.
var nameless = map[string]struct{ what, why string }{
	"$.passwd.users.0":  {"user", "useradd refuses it, and Ignition fails on the machine"},
	"$.passwd.groups.0": {"group", "groupadd refuses it, and Ignition fails on the machine"},
	"$.storage.raid.0":  {"RAID", "mdadm refuses it, and Ignition fails on the machine"},
	"$.storage.luks.0":  {"LUKS device", "it cannot be opened on the machine"},
}

// negative are the numbers that the specs allow to be negative, by their shape. Ignition gives
// those of partitions to sgdisk --new=NUMBER:START:+SIZE (internal/sgdisk/sgdisk.go), which
// cannot read the size, and takes the others for something else. Negative spares are added to
// the devices that mdadm demands (createRaids).
var negative = map[string]string{
	"$.storage.disks.0.partitions.0.sizemib":  "the size is negative: sgdisk refuses it, and Ignition fails on the machine",
	"$.storage.disks.0.partitions.0.size":     "the size is negative: sgdisk refuses it, and Ignition fails on the machine",
	"$.storage.disks.0.partitions.0.startmib": "the start is negative: sgdisk counts it from the end of the disk",
	"$.storage.disks.0.partitions.0.start":    "the start is negative: sgdisk counts it from the end of the disk",
	"$.storage.disks.0.partitions.0.number":   "the partition number is negative: sgdisk takes the next free one",
	"$.storage.raid.0.spares": "the number of spares is negative: mdadm demands more devices than there are, and " +
		"Ignition fails on the machine",
}

// warnFunc adds a warning about a value.
type warnFunc func(i int, format string, args ...any)

func (d *document) machineWarnings(s *spec) report.Report {
	var r report.Report
	var contents Contents
	warn := func(i int, format string, args ...any) {
		f := d.fail(i, fmt.Sprintf(format, args...), "")
		f.Severity = report.Warning
		r = append(r, *f)
	}
	for i := range d.nodes {
		shape := jsonscan.Fold(d.shape(i))
		entry, named := nameless[shape]
		switch {
		case named && d.member(i, "name") == "":
			if at := d.memberAt(i, "shouldExist"); at >= 0 && d.raw[d.nodes[at].Start] == 'f' {
				entry.why = "Ignition removes nothing"
			}
			warn(i, "the %s has no name: %s", entry.what, entry.why)
		case negative[shape] != "" && d.raw[d.nodes[i].Start] == '-':
			warn(i, "%s", negative[shape])
		case shape == "$.storage.filesystems.0" && s.major == 3, shape == "$.storage.filesystems.0.mount":
			d.filesystemWarnings(i, warn)
		case shape == "$.storage.links.0" && d.member(i, "target") == "":
			// WriteLink of internal/exec/util/file.go: symlink(2) takes no empty target, and
			// link(2) no directory, here the root.
			warn(i, "the link has no target: Ignition fails on the machine")
		case strings.HasPrefix(shape, "$.passwd.users.0.sshauthorizedkeys.") && !isKey(d.text(i)):
			// AuthorizeSSHKeys of internal/exec/util/passwd.go writes keys as they are.
			warn(i, "the SSH key cannot be parsed: sshd refuses it, and nobody can log in with it")
		case s.name == "3.4.0" && shape == "$.storage.luks.0.clevis.tang.0" && d.member(i, "advertisement") != "":
			// translateTang of config/v3_5_experimental/translate leaves it out in 2.19, and that
			// of config/v3_5/translate since. In 2.15 to 2.18 there is no translateTang.
			warn(i, "Ignition 2.19 and later drop the advertisement of a config of spec 3.4.0: use spec 3.5.0, which 2.20 "+
				"and later read")
		case d.memberAt(i, "source") >= 0:
			d.compressionWarnings(s, i, warn)
			verification := max(d.memberAt(i, "verification"), 0)
			if fault := contents.fault(d.member(i, "source"), d.member(i, "compression"), d.member(verification, "hash")); fault != "" {
				warn(i, "%s: Ignition fails on the machine", fault)
			}
		}
	}
	if s.major == 3 {
		d.hardLinkWarnings(warn)
	}
	return r
}

// compressionWarnings judges a compressed resource, by FetchFromS3 and FetchFromDataURL of
// internal/resource/url.go: both return ErrCompressionUnsupported, the second in 0.17 to 0.35 and
// 2.0 to 2.2 only.
func (d *document) compressionWarnings(s *spec, i int, warn warnFunc) {
	switch source := d.member(i, "source"); {
	case d.member(i, "compression") == "":
	case hasScheme(source, "s3") || hasScheme(source, "arn"):
		warn(i, "Ignition has no compression for s3 URLs and fails on the machine")
	case isData(source) && s.before(first31):
		warn(i, "Ignition before 2.3 has no compression for data URLs and fails on the machine: use spec 3.1.0 or later, or "+
			"leave out the compression")
	}
}

// text returns a string of the document, and "" for any other value.
func (d *document) text(i int) string {
	var s string
	_ = json.Unmarshal(d.raw[d.nodes[i].Start:d.nodes[i].End], &s)
	return s
}

// member returns a string of an object, and "" where it has none.
func (d *document) member(object int, key string) string {
	if i := d.memberAt(object, key); i >= 0 {
		return d.text(i)
	}
	return ""
}

// memberAt returns the value of an object under a key, and -1 where it has none.
func (d *document) memberAt(object int, key string) int {
	if d.kind(object) != '{' {
		return -1
	}
	for i := object + 1; i < len(d.nodes) && d.nodes[i].Parent >= object; i++ {
		if d.nodes[i].Parent == object && strings.EqualFold(d.nodes[i].Key, key) {
			return i
		}
	}
	return -1
}

// isUUID is what libuuid reads, in lower case.
var isUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString

// goodUUID are the uuids that the mkfs of each format takes.
var goodUUID = map[string]func(string) bool{
	"ext4":  func(id string) bool { return isUUID(id) || isWord(id) || id == "null" },
	"swap":  func(id string) bool { return isUUID(id) || isWord(id) },
	"xfs":   isUUID,
	"btrfs": func(id string) bool { return isUUID(id) || id == "" },
	"vfat":  regexp.MustCompile(`^(0x)?[0-9a-f]{1,8}$`).MatchString,
}

func isWord(id string) bool { return id == "clear" || id == "random" || id == "time" }

// filesystemWarnings judges a filesystem, by createFilesystem of
// internal/exec/stages/disks/filesystems.go. It makes none without a format, and gives the uuid
// to mkfs in lower case, without the dash in the volume ID of a vfat (canonicalizeFilesystemUUID).
func (d *document) filesystemWarnings(i int, warn warnFunc) {
	format, at := d.member(i, "format"), d.memberAt(i, "uuid")
	if format == "" {
		warn(i, "the filesystem has no format: Ignition does not make it")
		return
	}
	good, ok := goodUUID[format]
	if !ok || at < 0 || d.kind(at) != '"' {
		return
	}
	id := strings.ToLower(d.text(at))
	if format == "vfat" && len(id) > 4 && id[4] == '-' {
		id = id[:4] + id[5:]
	}
	switch {
	case good(id):
	case format == "vfat":
		warn(i, "the uuid of a vfat filesystem is 8 hexadecimal digits, such as 1234-ABCD: mkfs refuses it on the machine")
	default:
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

// hardLinkWarnings finds hard links across two mounts: link(2) refuses them (WriteLink of
// internal/exec/util/file.go). Spec 2 names one file system for a link and its target.
func (d *document) hardLinkWarnings(warn warnFunc) {
	mounts := map[string]bool{}
	for _, fs := range d.entries("filesystems") {
		if !slices.Contains([]string{"", "none", "swap"}, d.member(fs, "format")) && d.member(fs, "path") != "" {
			mounts[path.Clean("/"+d.member(fs, "path"))] = true
		}
	}
	for _, link := range d.entries("links") {
		at := d.memberAt(link, "hard")
		if at < 0 || d.raw[d.nodes[at].Start] != 't' || d.member(link, "target") == "" {
			continue
		}
		if on, other := mountOf(mounts, d.member(link, "path")), mountOf(mounts, d.member(link, "target")); on != other {
			warn(link, "a hard link cannot reach into another file system: the link is on the one mounted at %s, and its target "+
				"on that at %s; Ignition fails on the machine", on, other)
		}
	}
}

// entries returns the values in a list of the storage section.
func (d *document) entries(list string) (found []int) {
	at := d.find("storage", list)
	for i := at + 1; at >= 0 && i < len(d.nodes); i++ {
		if d.nodes[i].Parent == at {
			found = append(found, i)
		}
	}
	return found
}

// maxMountPath is the maximum length in bytes of a path whose mount is searched, PATH_MAX of Linux.
const maxMountPath = 4096

// mountOf returns the mount that a path is on.
func mountOf(mounts map[string]bool, name string) string {
	name = path.Clean("/" + report.Clip(name, maxMountPath))
	for name != "/" && !mounts[name] {
		name = path.Dir(name)
	}
	return name
}
