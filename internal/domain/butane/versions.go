package butane

import (
	"maps"
	"slices"
)

// versions are the variants of the library with their versions, oldest first.
var versions = map[string][]string{
	"fcos":    {"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0", "1.8.0-experimental"},
	"fiot":    {"1.0.0", "1.1.0-experimental"},
	"flatcar": {"1.0.0", "1.1.0", "1.2.0-experimental"},
	"openshift": {
		"4.8.0", "4.9.0", "4.10.0", "4.11.0", "4.12.0", "4.13.0", "4.14.0", "4.15.0", "4.16.0",
		"4.17.0", "4.18.0", "4.19.0", "4.20.0", "4.21.0", "4.22.0", "4.23.0-experimental",
	},
	"r4e": {"1.0.0", "1.1.0", "1.2.0-experimental"},
}

// Variants names the variants that can be compiled, sorted.
func Variants() []string { return slices.Sorted(maps.Keys(versions)) }

// Versions returns the versions of a variant, oldest first.
func Versions(variant string) []string { return slices.Clone(versions[variant]) }
