package pxe

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/loader"
)

// Values of --pxe-hosts.
const (
	// HostsAll answers every machine, and HostsKnown those that are known hosts.
	HostsAll   = "all"
	HostsKnown = "known"
)

// Rules say what machines are given.
type Rules struct {
	// Hosts is HostsAll or HostsKnown.
	Hosts string
	// Loaders are what there is to give.
	Loaders *loader.Set
	// Address is that of this server on the interface, and URL that of plain HTTP.
	Address netip.Addr
	URL     string
	// Port is that of plain HTTP.
	Port uint16
	// ScriptPath is the path of the script for iPXE, and LoaderPath begins that of a loader.
	ScriptPath, LoaderPath string
	// GRUBPath is the path of the configuration for GRUB, and ImagePath begins that of a file of an image.
	GRUBPath, ImagePath string
}

// Answer is what a machine is given.
type Answer struct {
	// File is a path for TFTP, or a URL; "": no answer is sent.
	File string
	// Silent says why there is no answer.
	Silent string
	// Class is the vendor class of the answer.
	Class string
	// Direct tells firmware to read the file at once; otherwise it asks at port 4011 for it.
	Direct bool
}

// Decide decides what a client is given. host is nil for a machine that is no known host.
func (r *Rules) Decide(c *Client, host *model.Host) Answer {
	if host == nil && r.Hosts == HostsKnown {
		return Answer{Silent: "it is no known host, and --pxe-hosts is known"}
	}
	if c.Stage == IPXE {
		return Answer{File: r.URL + r.ScriptPath, Class: classPXE, Direct: true}
	}
	var own v1.HostPXE
	if host != nil {
		own = host.Booting().PXE
	}
	given, missing := r.loader(c.Arch, own.Loader)
	switch {
	case given == nil:
		return Answer{Silent: missing}
	case c.Stage == FirmwareHTTP:
		return Answer{File: r.URL + r.LoaderPath + given.Name, Class: classHTTP}
	}
	return Answer{File: given.Name, Class: classPXE, Direct: own.Style != v1.PXEStyleServer}
}

// loader returns the loader for a kind of firmware; named is that of the host, or "". missing says why there is none.
func (r *Rules) loader(arch loader.Arch, named string) (given *loader.Loader, missing string) {
	switch {
	case !slices.Contains(loader.Arches, arch):
		return nil, fmt.Sprintf("no loader is known for its firmware (%s)", arch)
	case named == "":
		if given = r.Loaders.For(arch); given == nil {
			return nil, fmt.Sprintf("there is no iPXE for %s: %s", arch, loader.Package(arch))
		}
		return given, ""
	}
	given = r.Loaders.Named(named)
	switch {
	case given == nil:
		return nil, fmt.Sprintf("spec.pxe.loader of the host is %q, and there is no such file: glowplug boot-loaders lists them",
			named)
	case given.Arch != arch:
		return nil, fmt.Sprintf("spec.pxe.loader of the host is %q, which is for %s, and its firmware is %s", named,
			given.Arch, arch)
	}
	return given, ""
}
