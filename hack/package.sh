#!/usr/bin/env bash
# Builds the packages of a program: hack/package.sh VERSION ARCH PROGRAM EXTRAS NFPM OUT
#
# VERSION is that of git describe, ARCH amd64 or arm64, EXTRAS a folder that hack/genman has
# written, NFPM the tool of hack/release, and OUT the folder of the packages. Two runs write the
# same bytes, if SOURCE_DATE_EPOCH is the same.
set -euo pipefail
version=$1 arch=$2 program=$(realpath "$3") extras=$(realpath "$4") nfpm=$(realpath "$5") out=$(realpath "$6")
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?is not set}"

# Packages sort 0.2.0~rc.1 before 0.2.0, and 0.2.0+3.gabc, three commits later, after it. A commit
# without any tag below it is older than all releases.
if [[ $version =~ ^([0-9]+\.[0-9]+\.[0-9]+)(-([A-Za-z][A-Za-z0-9.]*))?(-([0-9]+)-(g[0-9a-f]+))?$ ]]; then
  PACKAGE_VERSION=${BASH_REMATCH[1]}${BASH_REMATCH[3]:+~${BASH_REMATCH[3]}}${BASH_REMATCH[5]:+"+${BASH_REMATCH[5]}.${BASH_REMATCH[6]}"}
else
  PACKAGE_VERSION=0.0.0+$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).g${version//[^A-Za-z0-9]/.}
fi
export PACKAGE_VERSION PACKAGE_ARCH=$arch

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp "$program" "$stage/glowplug"
cp -r "$extras/man1" "$extras/completions" "$stage/"
cp -r deploy/packages/{glowplug.yaml,glowplug.env,glowplug.service,sysusers.conf,scripts} "$stage/"
mkdir "$stage/doc"
cp -r README.md CHANGELOG.md docs examples deploy "$stage/doc/"
# Debian's tools read the changelog of a package in Debian's form.
gzip -n -9 >"$stage/changelog.gz" <<END
glowplug ($PACKAGE_VERSION) unstable; urgency=medium

  * The changes are in CHANGELOG.md.

 -- glowplug <packages@glowplug.dev>  $(LC_ALL=C date -R -u -d "@$SOURCE_DATE_EPOCH")
END
chmod -R u=rwX,go=rX "$stage"
cd "$stage"
for packager in deb rpm; do
  "$nfpm" package --config "$OLDPWD/deploy/packages/nfpm.yaml" --packager $packager --target "$out/" >/dev/null
done
