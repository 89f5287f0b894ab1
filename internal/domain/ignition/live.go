package ignition

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// LiveDemands is what a config asks of a system that runs from an image in memory, and that such a system has to
// refuse or may not have.
type LiveDemands struct {
	// ShouldExist and ShouldNotExist are kernelArguments. Ignition stops on a live system whose arguments are
	// others, since it cannot change them.
	ShouldExist, ShouldNotExist []string
	// Devices are the disks of the config that a live system does not have, or cannot write to.
	Devices []string
}

// bootDisk is the link to the disk that an installed CoreOS boots from.
const bootDisk = "/dev/disk/by-id/coreos-boot-disk"

// isMissingLive reports whether a device is missing on a live system, or is the medium that it boots from.
func isMissingLive(device string) bool {
	number, isCD := strings.CutPrefix(device, "/dev/sr")
	return device == bootDisk || device == "/dev/cdrom" || isCD && number != "" && strings.Trim(number, "0123456789") == ""
}

// liveHints are texts of which each config with demands has one, so that others need not be read.
var liveHints = [][]byte{[]byte("ernelArguments"), []byte(bootDisk), []byte("/dev/cdrom"), []byte("/dev/sr")}

// LiveDemandsOf returns what a config of spec 3 asks of a live system; nil: nothing that it cannot do, or the config
// cannot be read.
func LiveDemandsOf(config []byte) *LiveDemands {
	if !slices.ContainsFunc(liveHints, func(hint []byte) bool { return bytes.Contains(config, hint) }) {
		return nil
	}
	type device struct {
		Device  string
		Devices []string
	}
	var read struct {
		KernelArguments struct{ ShouldExist, ShouldNotExist []string }
		Storage         struct{ Disks, Filesystems, Luks, Raid []device }
	}
	if json.Unmarshal(config, &read) != nil {
		return nil
	}
	d := &LiveDemands{ShouldExist: read.KernelArguments.ShouldExist, ShouldNotExist: read.KernelArguments.ShouldNotExist}
	for _, list := range [][]device{read.Storage.Disks, read.Storage.Luks, read.Storage.Raid, read.Storage.Filesystems} {
		for _, one := range list {
			for _, name := range append(one.Devices, one.Device) {
				if isMissingLive(name) && !slices.Contains(d.Devices, name) {
					d.Devices = append(d.Devices, name)
				}
			}
		}
	}
	if len(d.ShouldExist)+len(d.ShouldNotExist)+len(d.Devices) == 0 {
		return nil
	}
	return d
}

// Unmet returns why Ignition stops on a live system with these kernel arguments, and what to do, as two sentences
// without a full stop; "": it does not stop. A nil d asks for nothing.
func (d *LiveDemands) Unmet(args []string) string {
	if d == nil {
		return ""
	}
	const fixed = "a live system cannot change its kernel arguments, and kernel_arguments."
	for _, arg := range d.ShouldExist {
		if !slices.Contains(args, arg) {
			return fixed + "should_exist " + quoted(arg) + " is not among them; set the argument in kernelArgs of the image " +
				"or the host, or install the system"
		}
	}
	for _, arg := range d.ShouldNotExist {
		if slices.Contains(args, arg) {
			return fixed + "should_not_exist " + quoted(arg) + " is among them; remove the argument from the image " +
				"or the config, or install the system"
		}
	}
	switch {
	case len(d.Devices) == 0:
		return ""
	case d.Devices[0] == bootDisk:
		return "a live system has no " + bootDisk + ", which is the disk of an installed one; name the disk of the machine, " +
			"or install the system"
	}
	return "nothing can be written to " + d.Devices[0] + ", which is the medium of the image or another CD-ROM; name a disk"
}

// quoted returns a short text in quotes.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return `"` + text + `"`
}
