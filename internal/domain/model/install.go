package model

import (
	"cmp"

	v1 "glowplug/api/v1"
)

// Installs reports whether an image is a live system of CoreOS, which installs itself on a disk.
func (i *Image) Installs() bool { return i.Live || i.PXE && i.Rootfs }

// installDevice returns the disk on which a host is to install the system of its image; "": on none, it boots the live
// system. The host's own hints count, then the annotation of the image, then that of the host's namespace.
func installDevice(v View, h *Host, image *Image) string {
	if h.Booting().Forever { // it would be installed at each boot
		return ""
	}
	ofNamespace := ""
	n := v.state.namespaces.get(Ref{Namespace: h.Namespace})
	if n != nil && !v1.HasKernelArg(image.KernelArgs, "coreos.inst.install_dev") {
		ofNamespace = n.InstallDevice
	}
	return cmp.Or(h.Booting().InstallDevice, image.InstallDevice, ofNamespace)
}

// OwnArgs returns the kernel arguments of a host for its image, which replace those of the image: spec.kernelArgs
// and, where the host installs the system of the image, those of the installer; nil: there are none.
func OwnArgs(v View, h *Host, image *Image) []string {
	own := h.Booting().KernelArgs
	if image == nil || !image.Installs() {
		return own
	}
	device := installDevice(v, h, image)
	if device == "" {
		return own
	}
	return v1.MergeKernelArgs([]string{
		"coreos.inst.install_dev=" + device, "coreos.inst.ignition_url=${glowplug}/api/v1/ignition",
	}, own)
}
