package v1

import (
	"slices"
	"strings"
)

// MergeKernelArgs returns the kernel arguments of an image followed by those of a host. An
// argument of the image whose name the host has as well is left out.
func MergeKernelArgs(image, own []string) []string {
	named := map[string]bool{}
	for _, arg := range own {
		for word := range strings.FieldsSeq(arg) {
			named[argumentName(word)] = true
		}
	}
	merged := slices.DeleteFunc(slices.Clone(image), func(arg string) bool { return named[argumentName(arg)] })
	return append(merged, own...)
}

func argumentName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}
