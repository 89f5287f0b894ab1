#!/usr/bin/env bash
# Builds the release of the commit that is checked out into dist/: an archive and an
# SBOM for each platform, and their sums. Two builds of a commit by one release of Go
# have the same bytes, whatever the directory and the clock (hack/test-release.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "$(git status --porcelain)" ]; then
  echo "error: there are changes that are not committed, which no release can have" >&2
  exit 1
fi
version=$(git describe --tags --always)
version=${version#v}
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS= LC_ALL=C TZ=UTC
# These go into the binary, and the environment must not choose them.
export GOOS=linux GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off

rm -rf dist
mkdir dist
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOOS= go -C hack/release build -trimpath -buildvcs=false -o "$tools/" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

for arch in amd64 arm64; do
  name=glowplug-$version-linux-$arch
  mkdir "dist/$name"
  git archive HEAD README.md CHANGELOG.md docs examples deploy/systemd | tar -x -C "dist/$name"
  # -buildvcs=false: Go stamps clones and not worktrees; the linker sets both anyway.
  GOARCH=$arch go build -trimpath -buildvcs=false -o "dist/$name/glowplug" -ldflags "-s -w \
    -X glowplug/internal/version.Version=$version -X glowplug/internal/version.commit=$commit" ./cmd/glowplug
  "$tools/cyclonedx-gomod" bin -json -std -noserial -notimestamp -version "$version" \
    -output "dist/$name.cdx.json" "dist/$name/glowplug"
  tar -C dist --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -cf - "$name" | gzip -n -9 >"dist/$name.tar.gz"
  rm -r "dist/$name"
done
(cd dist && sha256sum -- *.tar.gz *.json >SHA256SUMS && cat SHA256SUMS)
