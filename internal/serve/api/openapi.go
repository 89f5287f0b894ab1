package api

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	endpointsopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"glowplug/api/openapi"
	"glowplug/internal/version"
)

// openAPIConfigs describe the API in OpenAPI 2 and 3, for kubectl explain and
// validation.
func openAPIConfigs() (*common.Config, *common.OpenAPIV3Config) {
	namer := endpointsopenapi.NewDefinitionNamer(publicScheme())
	info := func() *spec.Info {
		return &spec.Info{InfoProps: spec.InfoProps{Title: "glowplug", Version: version.Version}}
	}
	const usual = "Default Response."
	v2 := &common.Config{
		ProtocolList: []string{"https"}, Info: info(), PostProcessSpec: dropStrategicMerge2,
		DefaultResponse:       &spec.Response{ResponseProps: spec.ResponseProps{Description: usual}},
		GetOperationIDAndTags: endpointsopenapi.GetOperationIDAndTags, GetDefinitionName: namer.GetDefinitionName,
		GetDefinitions: openapi.GetOpenAPIDefinitions,
	}
	v3 := &common.OpenAPIV3Config{
		Info: info(), PostProcessSpec: dropStrategicMerge3,
		DefaultResponse:       &spec3.Response{ResponseProps: spec3.ResponseProps{Description: usual}},
		GetOperationIDAndTags: endpointsopenapi.GetOperationIDAndTags, GetDefinitionName: namer.GetDefinitionName,
		GetDefinitions: openapi.GetOpenAPIDefinitions,
	}
	v3.Definitions = openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		definition, _ := namer.GetDefinitionName(name)
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(definition))
	})
	return v2, v3
}

// dropStrategicMerge2 removes strategic merge patches from the document: our types do not
// define them, and kubectl apply and diff would try one and warn. The server still accepts
// them, since kubectl sends them for namespaces: the lists are copied, because the routes use
// them as well.
func dropStrategicMerge2(doc *spec.Swagger) (*spec.Swagger, error) {
	if doc.Paths == nil {
		return doc, nil
	}
	for _, path := range doc.Paths.Paths {
		if path.Patch != nil {
			path.Patch.Consumes = slices.DeleteFunc(slices.Clone(path.Patch.Consumes), func(media string) bool {
				return media == string(types.StrategicMergePatchType)
			})
		}
	}
	return doc, nil
}

func dropStrategicMerge3(doc *spec3.OpenAPI) (*spec3.OpenAPI, error) {
	if doc.Paths == nil {
		return doc, nil
	}
	for _, path := range doc.Paths.Paths {
		if path.Patch != nil && path.Patch.RequestBody != nil {
			delete(path.Patch.RequestBody.Content, string(types.StrategicMergePatchType))
		}
	}
	return doc, nil
}

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
