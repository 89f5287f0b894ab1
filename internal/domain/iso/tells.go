package iso

import (
	"slices"
	"strings"
)

// configKeys are the names of kernel arguments that tell a system where its config is, or what to install
// without one: those of Ignition, Anaconda, the Debian installer, cloud-init, SUSE, Talos and others.
var configKeys = []string{
	"ignition.config.url", "coreos.config.url", "flatcar.config.url", "coreos.inst.ignition_url",
	"inst.ks", "ks", "inst.ks.all",
	"preseed/url", "preseed/file", "url", "file", "auto", "auto-install/enable",
	"ds", "autoinstall", "cloud-config-url", "cloud-init", "ci.ds",
	"autoyast", "autoyast2", "inst.auto", "agama.auto",
	"talos.config", "harvester.install.config_url", "k3os.install.config_url", "script", "answerfile", "apkovl",
}

// otherURLs are parts of names of arguments whose URLs lead to something else than a config.
var otherURLs = []string{"rootfs", "stage2", "repo", "proxy", "updates", "root", "squashfs", "fetch", "netboot", "iso", "image"}

// TellsConfig reports whether a kernel argument tells a system where its config is. One of an unknown name
// does if it has a URL, unless the name is of something else.
func TellsConfig(arg string) bool {
	name, value, assigned := strings.Cut(strings.Trim(arg, `"'`), "=")
	if slices.Contains(configKeys, name) {
		return !assigned || value != "" // inst.ks= takes the default one away
	}
	return strings.Contains(value, "://") && !slices.ContainsFunc(otherURLs, func(other string) bool {
		return strings.Contains(name, other)
	})
}
