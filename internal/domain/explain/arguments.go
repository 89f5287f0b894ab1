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

// Arguments returns the kernel arguments with which a host boots an image, with the origin of each. own are those of
// the host. Where the image is not ready, those of its boot entries and its default ones are not known.
func Arguments(image *model.Image, own []string) (explained []Argument) {
	args := image.AppliedArgs
	switch {
	case image.External != nil:
		return nil
	case image.PXE:
		rootfs := ""
		if image.Rootfs {
			rootfs = serverURL + "/iso/" + image.Ref.String() + "/files/rootfs"
		}
		args = decide.KernelArgs(image, own, serverURL, rootfs, "")
	case len(args) == 0:
		args = image.KernelArgs
		fallthrough
	default:
		args = v1.MergeKernelArgs(append(slices.Clip(image.OwnArgs), args...), own)
	}
	for _, arg := range args {
		from := FromDefault
		switch {
		case slices.Contains(own, arg) && model.IsInstallArg(arg):
			from = FromInstall
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
func noConfig(image *model.Image, own []string) string {
	if slices.ContainsFunc(own, iso.TellsConfig) || image.NoConfig == "" {
		return ""
	}
	return "image " + image.Ref.String() + ": " + image.NoConfig
}

// noInstallation says that a host names a disk for a system that its image does not install; "": it does, or the host
// names none, or the image is not known yet.
func noInstallation(image *model.Image, h *model.Host) string {
	hint := ""
	switch {
	case image.Phase != v1.PhaseReady || image.PXE || image.Installs(): // CoreOS and Flatcar alone have such sets
		return ""
	case h.Booting().InstallDevice != "":
		hint = "spec.rootDeviceHints of the host"
	case image.InstallDevice != "":
		hint = "its annotation " + v1.AnnotationInstallDevice
	default:
		return ""
	}
	return "image " + image.Ref.String() + " is no live system of CoreOS or Flatcar, so it installs nothing by itself: " + hint +
		" has no effect"
}

// otherType says that a host boots an image whose kernel arguments ask this server for a config of a type of which the
// host has none, while it has one of the other type; "": they do not.
func otherType(d *decide.Decider, view model.View, image *model.Image, h *model.Host) string {
	typ, argument := askedType(bootArguments(model.OwnArgs(view, h, image), image))
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

// bootArguments returns the kernel arguments with which a host boots an image; own are those of the host. nil: they are
// not known.
func bootArguments(own []string, image *model.Image) []string {
	var lines []string
	switch {
	case image.PXE:
		lines = decide.KernelArgs(image, own, "", "rootfs", "")
	case len(image.Args) > 0:
		lines = v1.MergeKernelArgs(image.Args, own)
	}
	return strings.Fields(strings.Join(lines, " "))
}

// Line returns the kernel arguments of Arguments as one line, for the server with a URL.
func Line(image *model.Image, own []string, url string) string {
	var args []string
	for _, arg := range Arguments(image, own) {
		args = append(args, strings.ReplaceAll(arg.Argument, serverURL, url))
	}
	return strings.Join(args, " ")
}
