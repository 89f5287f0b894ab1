package iso

import (
	"cmp"
	"slices"
	"strings"
)

// The distributions that an image installs.
const (
	CoreOS    = "coreos"
	Fedora    = "fedora"
	RHEL      = "rhel"
	CentOS    = "centos"
	Rocky     = "rocky"
	AlmaLinux = "almalinux"
	Oracle    = "ol"
	Debian    = "debian"
	Ubuntu    = "ubuntu"
	Generic   = "generic"
)

// labels are the prefixes of volume labels, .treeinfo and .disk/info, the more special
// one first.
var labels = []struct{ prefix, distro string }{
	{"fedora-coreos", CoreOS},
	{"rhcos", CoreOS},
	{"scos", CoreOS},
	{"fedora", Fedora},
	{"red hat enterprise linux", RHEL},
	{"rhel", RHEL},
	{"centos", CentOS},
	{"rocky", Rocky},
	{"almalinux", AlmaLinux},
	{"oracle linux", Oracle},
	{"ol-", Oracle},
	{"debian", Debian},
	{"ubuntu", Ubuntu},
	{"kubuntu", Ubuntu},
	{"xubuntu", Ubuntu},
	{"lubuntu", Ubuntu},
}

func distroByName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, n := range labels {
		if strings.HasPrefix(name, n.prefix) {
			return n.distro
		}
	}
	return ""
}

// detectDistro returns the distribution that the image installs, by the files and the
// labels in it.
func detectDistro(img *Image) string {
	if img.exists(kargsPath) || img.exists(kargsPath83) || img.exists("/coreos/igninfo.json") {
		return CoreOS
	}
	if areas, err := img.legacyAreas(); err == nil && len(areas) > 0 {
		return CoreOS
	}
	// A file that cannot be read has no name of a distribution.
	treeInfo, _ := img.tree().readFile("/.treeinfo")
	diskInfo, _ := img.tree().readFile("/.disk/info")
	return cmp.Or(distroByName(family(string(treeInfo))), distroByName(img.volume.id), distroByName(string(diskInfo)),
		Generic)
}

// family returns the product's name in a .treeinfo file: the family, or the name of the
// release.
func family(info string) string {
	section, found := "", ""
	for line := range strings.Lines(info) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case section == "[general]" && key == "family":
			return strings.TrimSpace(value)
		case section == "[release]" && key == "name":
			found = strings.TrimSpace(value)
		}
	}
	return found
}

// anaconda reports whether the image's installer is Anaconda.
func anaconda(distro string) bool {
	return slices.Contains([]string{Fedora, RHEL, CentOS, Rocky, AlmaLinux, Oracle}, distro)
}
