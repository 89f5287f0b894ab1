package v1

import (
	"slices"
	"strings"
)

// MergeKernelArgs adds a machine's own kernel arguments to those of its image. One
// that has the name of a machine's own is left out.
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
