package decide

import (
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
	"glowplug/internal/store/snapshot"
)

// serverURL stands for the URL of this server, as in kernelArgs.
const serverURL = "${glowplug}"

// explainArguments returns the kernel arguments that are added to the boot entries of an image for a host, with the
// origin of each. Where the image is not ready, its default ones are not known.
func explainArguments(image *snapshot.Image, host *snapshot.Host) (explained []ExplainedArgument) {
	own, args := host.Booting().KernelArgs, image.AppliedArgs
	switch {
	case image.External != nil:
		return nil
	case image.PXE:
		rootfs := ""
		if image.Rootfs {
			rootfs = serverURL + "/iso/" + image.Ref.String() + "/files/rootfs"
		}
		args = KernelArgs(image, host, serverURL, rootfs, "")
	case len(args) == 0:
		args = image.KernelArgs
		fallthrough
	default:
		args = v1.MergeKernelArgs(args, own)
	}
	for _, arg := range args {
		from := FromDefault
		switch {
		case slices.Contains(own, arg):
			from = FromHost
		case v1.HasKernelArg(image.KernelArgs, arg):
			from = FromImage
		}
		explained = append(explained, ExplainedArgument{arg, from})
	}
	return explained
}

// noConfig says that no kernel argument tells the system of an image where its config is; "": one does, be it one
// of the host, or that is not known.
func noConfig(image *snapshot.Image, host *snapshot.Host) string {
	if slices.ContainsFunc(host.Booting().KernelArgs, iso.TellsConfig) || image.NoConfig == "" {
		return ""
	}
	return "image " + image.Ref.String() + ": " + image.NoConfig
}
