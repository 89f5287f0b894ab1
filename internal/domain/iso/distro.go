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
	Flatcar   = "flatcar"
	Generic   = "generic"
)

// labels are the prefixes of volume labels, .treeinfo and .disk/info, the more special
// one first.
var labels = []struct{ prefix, distro string }{
	{"fedora-coreos", CoreOS},
	{"rhcos", CoreOS},
	{"scos", CoreOS},
	{"flatcar", Flatcar},
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
	if img.exists("/flatcar/vmlinuz") { // the label of the volume is CDROM
		return Flatcar
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

// Options are the arguments to set.
type Options struct {
	// Args are the kernel arguments. With none, the distro's default is set, unless NoDefault is true.
	Args      []string
	NoDefault bool
	// BaseURL replaces ${glowplug} in an argument.
	BaseURL string
	// FilesURL is the URL under which the files of the image are served over HTTP.
	// With none, the default is for a machine that finds the image again through its
	// firmware's iSCSI table.
	FilesURL string
}

// DefaultArgs returns the kernel arguments that the distro needs to fetch its
// config from here and to find its own image again after the kernel has loaded:
// through the firmware's iSCSI table (iBFT), or over HTTP from filesURL. An
// image of another distro has none.
func (img *Image) DefaultArgs(filesURL string) []string {
	filesURL = strings.TrimSuffix(filesURL, "/")
	var args []string
	switch {
	case img.distro == CoreOS:
		args = []string{"ignition.firstboot", "ignition.platform.id=metal",
			"ignition.config.url=${glowplug}/api/v1/ignition"}
		if rootfs, err := img.Lookup("/images/pxeboot/rootfs.img"); err == nil && filesURL != "" {
			return append(args, "coreos.live.rootfs_url="+filesURL+rootfs.Path)
		}
	case anaconda(img.distro):
		args = []string{"inst.ks=${glowplug}/api/v1/kickstart"}
		if filesURL != "" && (img.exists("/images/install.img") || img.exists("/.treeinfo")) {
			return append(args, "inst.stage2="+filesURL)
		}
	case img.distro == Flatcar: // which has all of its system in the initial RAM disk
		return []string{"flatcar.first_boot=1", "ignition.config.url=${glowplug}/api/v1/ignition"}
	default:
		return nil
	}
	return append(args, "rd.iscsi.firmware=1", "ip=ibft")
}

// edit returns the change of the image's command lines, nil for none.
func (img *Image) edit(o Options) (*edit, error) {
	texts := o.Args
	if len(texts) == 0 && !o.NoDefault {
		texts = img.DefaultArgs(o.FilesURL)
	}
	args, err := parseArguments(texts, o.BaseURL)
	if err != nil || len(args) == 0 {
		return nil, err
	}
	// The image is no longer the one that the check knows.
	e := &edit{set: args, drop: []string{mediaCheck}, kept: map[string]bool{}}
	for _, a := range args {
		// With the label of an ISO to wait for, CoreOS does not look at the URL.
		if a.key() == "coreos.live.rootfs_url" {
			e.drop = append(e.drop, "coreos.liveiso")
		}
	}
	return e, nil
}
