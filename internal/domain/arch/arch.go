// Package arch knows the names of processor architectures, and which images a machine can
// boot.
package arch

import (
	"slices"
	"strings"
)

// Label is the label of a host with its architecture, as on nodes of Kubernetes.
const Label = "kubernetes.io/arch"

// The architectures, named as uname and CoreOS streams name them.
const (
	x86   = "i386"
	x8664 = "x86_64"
)

// names are the names that firmware, iPXE, distributions and Kubernetes use.
var names = map[string]string{
	x8664: x8664, "amd64": x8664, "x64": x8664,
	x86: x86, "i486": x86, "i586": x86, "i686": x86, "386": x86, "ia32": x86,
	"aarch64": "aarch64", "arm64": "aarch64", "aa64": "aarch64",
	"arm": "arm", "arm32": "arm", "armhf": "arm", "armhfp": "arm", "armv7l": "arm",
	"riscv64": "riscv64", "loongarch64": "loongarch64", "loong64": "loongarch64",
	"ppc64le": "ppc64le", "ppc64el": "ppc64le", "s390x": "s390x",
}

// Parse returns the architecture with a name, "" if it is not known.
func Parse(name string) string { return names[strings.ToLower(name)] }

// CanBoot reports whether a machine can boot an image. It is true if one of the two
// architectures is not known. iPXE for BIOS says i386 on every x86 machine, so the two x86
// architectures are not distinguished.
func CanBoot(machine string, image []string) bool {
	if machine == "" || len(image) == 0 {
		return true
	}
	return slices.ContainsFunc(image, func(a string) bool { return family(a) == family(machine) })
}

func family(architecture string) string {
	if architecture == x86 {
		return x8664
	}
	return architecture
}

// Set returns the architectures in order, each once. It leaves out i386 beside x86_64: such
// an image has a loader for 32-bit firmware.
func Set(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	if slices.Contains(all, x8664) {
		all = slices.DeleteFunc(all, func(a string) bool { return a == x86 })
	}
	return all
}
