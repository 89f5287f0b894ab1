#!/usr/bin/env bash
# Regenerates deepcopy and OpenAPI code from the types in api/v1, and the pages
# in docs/reference from those types, the commands and the metrics.
set -euo pipefail
cd "$(dirname "$0")/.."
meta="k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version k8s.io/api/authorization/v1 k8s.io/api/authentication/v1 k8s.io/api/rbac/v1"
readonly_pkgs=$(printf -- '--readonly-pkg %s ' $meta)

mkdir -p docs/reference
go tool deepcopy-gen --go-header-file hack/boilerplate.go.txt \
  --output-file zz_generated.deepcopy.go ./api/v1
go tool openapi-gen --go-header-file hack/boilerplate.go.txt \
  --output-dir api/openapi --output-pkg glowplug/api/openapi --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go $readonly_pkgs \
  --report-filename /dev/null ./api/v1 $meta
go run ./hack/gendocs
