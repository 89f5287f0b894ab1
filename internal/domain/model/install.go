package model

import (
	"cmp"
	"strings"

	v1 "glowplug/api/v1"
)

// installing ends the URL of a config with which a live system of Flatcar asks for the config that installs the system.
const installing = "?install=true"

// Installs reports whether an image is a live system that installs itself on a disk: one of CoreOS or Flatcar.
func (i *Image) Installs() bool { return i.Live || i.Flatcar || i.PXE && i.Rootfs }

// InstallDevice returns the disk on which a host is to install the system of its image; "": on none, it boots the live
// system. The host's own hints count, then the annotation of the image, then that of the host's namespace.
func InstallDevice(v View, h *Host, image *Image) string {
	if h.Booting().Forever { // it would be installed at each boot
		return ""
	}
	ofNamespace := ""
	if !v1.HasKernelArg(image.KernelArgs, "coreos.inst.install_dev") {
		ofNamespace = v.namespace(h.Namespace).InstallDevice
	}
	return cmp.Or(h.Booting().InstallDevice, image.InstallDevice, ofNamespace)
}

// IsInstallArg reports whether a kernel argument is one of an installer.
func IsInstallArg(arg string) bool {
	return strings.HasPrefix(arg, "coreos.inst.") || strings.HasPrefix(arg, "ignition.config.url=") &&
		strings.HasSuffix(arg, installing)
}

// OwnArgs returns the kernel arguments of a host for its image, which replace those of the image: spec.kernelArgs
// and, where the host installs the system of the image, those of the installer; nil: there are none.
func OwnArgs(v View, h *Host, image *Image) []string {
	own := h.Booting().KernelArgs
	if image == nil || !image.Installs() {
		return own
	}
	device := InstallDevice(v, h, image)
	switch {
	case device == "":
		return own
	case image.Flatcar:
		return v1.MergeKernelArgs([]string{"ignition.config.url=${glowplug}/api/v1/ignition" + installing}, own)
	}
	return v1.MergeKernelArgs([]string{
		"coreos.inst.install_dev=" + device, "coreos.inst.ignition_url=${glowplug}/api/v1/ignition",
	}, own)
}
