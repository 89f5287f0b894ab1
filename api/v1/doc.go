// Package v1 holds the resource types of glowplug's API, group "" version v1,
// with their defaults and validation. Field names follow the IgnitionConfig CRD
// specification to the letter; everything added to it is optional.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=glowplug.api.v1
// +groupName=
package v1
