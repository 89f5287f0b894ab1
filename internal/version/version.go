// Package version has the versions of the program and of its parts.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is the release. The Makefile sets it, and commit, with the linker.
var Version = "0.1.0"

// commit is empty in a build without the Makefile.
var commit string

// KubernetesVersion is the release of Kubernetes whose API machinery this is. kubectl
// computes the version skew from it.
const KubernetesVersion = "v1.37.2"

// Commit returns the commit that the binary was built from, empty where neither the
// Makefile nor Go recorded it.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Line is what `glowplug version` prints.
func Line() string {
	line := fmt.Sprintf("glowplug %s (Kubernetes API %s, %s, %s/%s)", Version, KubernetesVersion,
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if c := Commit(); len(c) >= 12 {
		line += " commit " + c[:12]
	}
	return line
}
