#!/usr/bin/env bash
# Builds the release of the commit that is checked out into dist/: an archive, a deb, an rpm and an
# SBOM for each platform, a container image of both, and the sums of all. Two builds of a commit by
# one release of Go have the same bytes, whatever the directory and the clock
# (hack/test-release.sh).
#
# With GLOWPLUG_SIGN_KEY=FILE the sums are signed by that key of minisign, whose password is in
# GLOWPLUG_SIGN_PASSWORD.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "$(git status --porcelain)" ]; then
  echo "error: there are changes that are not committed, which no release can have" >&2
  exit 1
fi
key=${GLOWPLUG_SIGN_KEY:-}
if [ -n "$key" ] && [ ! -r "$key" ]; then
  echo "error: GLOWPLUG_SIGN_KEY: there is no file $key that can be read" >&2
  exit 1
fi
version=$(git describe --tags --always)
version=${version#v}
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS= LC_ALL=C TZ=UTC
# These go into the binary, and the environment must not choose them.
export GOOS=linux GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off
# What is copied has the modes of the commit, whoever builds.
umask 022

rm -rf dist
mkdir dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOOS= go -C hack/release build -trimpath -buildvcs=false -o "$work/" ./ociimage ./sign \
  github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod github.com/goreleaser/nfpm/v2/cmd/nfpm
# -trimpath: what it compiles is that of the release.
GOOS= go run -trimpath ./hack/genman "$version" "$work/extras"

programs=()
for arch in amd64 arm64; do
  name=glowplug-$version-linux-$arch
  mkdir "dist/$name"
  git archive HEAD README.md CHANGELOG.md docs examples deploy | tar -x -C "dist/$name"
  # -buildvcs=false: Go stamps clones and not worktrees; the linker sets both anyway.
  GOARCH=$arch go build -trimpath -buildvcs=false -o "dist/$name/glowplug" -ldflags "-s -w \
    -X glowplug/internal/version.Version=$version -X glowplug/internal/version.commit=$commit" ./cmd/glowplug
  "$work/cyclonedx-gomod" bin -json -std -noserial -notimestamp -version "$version" \
    -output "dist/$name.cdx.json" "dist/$name/glowplug"
  hack/package.sh "$version" $arch "dist/$name/glowplug" "$work/extras" "$work/nfpm" dist
  tar -C dist --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -cf - "$name" | gzip -n -9 >"dist/$name.tar.gz"
  mv "dist/$name/glowplug" "$work/glowplug-$arch"
  programs+=("$arch=$work/glowplug-$arch")
  rm -r "dist/$name"
done
"$work/ociimage" "$version" "$commit" "dist/glowplug-$version-oci.tar" "${programs[@]}"
(cd dist && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" . && cat SHA256SUMS)
if [ -n "$key" ]; then
  "$work/sign" "$key" dist/SHA256SUMS
fi
