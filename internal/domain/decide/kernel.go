package decide

import (
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// KernelArgs returns the kernel arguments of an image that is a kernel and its files:
// those of the image, or else those with which its distribution finds its config here,
// replaced by the host's own. base is this server's URL, for ${glowplug}; rootfs the URL
// of the root file system, "" where there is none. host may be nil.
//
// CoreOS needs the same arguments as its ISO images. Flatcar has no root file system
// beside its initramfs, and its own flag for the first boot.
func KernelArgs(image *snapshot.Image, host *snapshot.Host, base, rootfs string) []string {
	args := slices.Clone(image.KernelArgs)
	if len(args) == 0 {
		first := "ignition.firstboot"
		if rootfs == "" {
			first = "flatcar.first_boot=1"
		}
		args = []string{first, "ignition.platform.id=metal", "ignition.config.url=${glowplug}/api/v1/ignition"}
	}
	if host != nil && host.Image == image.Ref {
		args = v1.MergeKernelArgs(args, host.Booting().KernelArgs)
	}
	if rootfs != "" {
		args = v1.MergeKernelArgs(args, []string{"coreos.live.rootfs_url=" + rootfs})
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "${glowplug}", base)
	}
	return args
}
