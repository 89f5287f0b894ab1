package explain

import (
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/model"
)

// serverURL stands for the URL of this server, as in kernelArgs.
const serverURL = "${glowplug}"

// explainArguments returns the kernel arguments with which a host boots an image, with the origin of each. Where the
// image is not ready, those of its boot entries and its default ones are not known.
func explainArguments(image *model.Image, host *model.Host) (explained []Argument) {
	own, args := host.Booting().KernelArgs, image.AppliedArgs
	switch {
	case image.External != nil:
		return nil
	case image.PXE:
		rootfs := ""
		if image.Rootfs {
			rootfs = serverURL + "/iso/" + image.Ref.String() + "/files/rootfs"
		}
		args = decide.KernelArgs(image, host, serverURL, rootfs, "")
	case len(args) == 0:
		args = image.KernelArgs
		fallthrough
	default:
		args = v1.MergeKernelArgs(append(slices.Clip(image.OwnArgs), args...), own)
	}
	for _, arg := range args {
		from := FromDefault
		switch {
		case slices.Contains(own, arg):
			from = FromHost
		case v1.HasKernelArg(image.KernelArgs, arg):
			from = FromImage
		case slices.Contains(image.OwnArgs, arg) && !slices.Contains(image.AppliedArgs, arg):
			from = FromEntry
		}
		explained = append(explained, Argument{arg, from})
	}
	return explained
}

// noConfig says that no kernel argument tells the system of an image where its config is; "": one does, be it one
// of the host, or that is not known.
func noConfig(image *model.Image, host *model.Host) string {
	if slices.ContainsFunc(host.Booting().KernelArgs, iso.TellsConfig) || image.NoConfig == "" {
		return ""
	}
	return "image " + image.Ref.String() + ": " + image.NoConfig
}

// otherType says that a host boots an image whose kernel arguments ask this server for a config of a type of which the
// host has none, while it has one of the other type; "": they do not.
func otherType(d *decide.Decider, view model.View, image *model.Image, h *model.Host) string {
	typ, argument := askedType(bootArguments(h, image))
	if typ == "" || d.Assigned(view, h, typ) != nil {
		return ""
	}
	config, _ := d.ConfigOf(view, h)
	if config == nil {
		return ""
	}
	return "image " + image.Ref.String() + " asks for a config of type " + typ + " (" + argument + "), and of this type " +
		"none matches this host: IgnitionConfig " + config.Ref.String() + " is of type " + config.Type +
		"; give the host a config of type " + typ + ", or another image"
}

// askedType returns the type of config for which a kernel argument asks this server, and the argument; "": none
// does, or several of different types do.
func askedType(args []string) (asked, argument string) {
	for _, arg := range args {
		for _, typ := range decide.AnyInstaller {
			switch {
			case !strings.Contains(arg, "/api/v1/"+typ):
			case asked != "" && asked != typ:
				return "", ""
			default:
				asked, argument = typ, arg
			}
		}
	}
	return asked, argument
}

// bootArguments returns the kernel arguments with which a host boots an image; nil: they are not known.
func bootArguments(h *model.Host, image *model.Image) []string {
	var lines []string
	switch {
	case image.PXE:
		lines = decide.KernelArgs(image, h, "", "rootfs", "")
	case len(image.Args) > 0:
		lines = v1.MergeKernelArgs(image.Args, h.Booting().KernelArgs)
	}
	return strings.Fields(strings.Join(lines, " "))
}
