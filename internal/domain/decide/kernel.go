package decide

import (
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// KernelArgs are the kernel arguments of an image that is a kernel and its files:
// those of the image, or what its distribution needs to find its config here, with
// the host's own over them. base is this server's URL, for ${glowplug}; rootfs the
// URL of the root file system, "" where there is none. host may be nil.
//
// What CoreOS needs is the same as in an ISO image of it; Flatcar has all in its
// initramfs, and begins its first boot by a flag of its own.
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
