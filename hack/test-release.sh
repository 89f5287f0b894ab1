#!/usr/bin/env bash
# Builds the release of the commit that is checked out twice, from clones in two
# directories with different permissions, and compares the sums. It shares the cache of Go,
# so it takes about two minutes after a release was built, and ten before.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for part in one another/and-longer; do
  git clone -q . "$dir/$part"
done
(umask 022 && "$dir/one/hack/release.sh" >"$dir/first")
(umask 077 && "$dir/another/and-longer/hack/release.sh" >"$dir/second")
diff "$dir/first" "$dir/second"
cat "$dir/first"
echo "release: both builds are the same"
