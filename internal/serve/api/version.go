package api

import (
	"runtime"
	"runtime/debug"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"

	"glowplug/internal/version"
)

// versionInfo returns the answer to kubectl version: the release of the API machinery, with
// glowplug's own after the plus sign.
func versionInfo() apimachineryversion.Info {
	parts := strings.SplitN(strings.TrimPrefix(version.KubernetesVersion, "v"), ".", 3)
	info := apimachineryversion.Info{
		Major:      parts[0],
		Minor:      parts[1],
		GitVersion: version.KubernetesVersion + "+glowplug-" + version.Version,
		GitCommit:  version.Commit(),
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			switch setting.Key {
			case "vcs.time":
				info.BuildDate = setting.Value
			case "vcs.modified":
				info.GitTreeState = map[string]string{"true": "dirty", "false": "clean"}[setting.Value]
			}
		}
	}
	return info
}

// ownVersion gives the library our version in place of one from linker flags.
type ownVersion struct {
	basecompatibility.EffectiveVersion
}

func (ownVersion) Info() *apimachineryversion.Info {
	info := versionInfo()
	return &info
}

func effectiveVersion() basecompatibility.EffectiveVersion {
	return ownVersion{utilcompatibility.DefaultBuildEffectiveVersion()}
}
