#!/usr/bin/env bash
# Prints the folders with Go files, those of the console's templates, styles and scripts, and those
# of what is installed (deploy, and the scripts of a release), that were changed since the commit
# CI_BASE or, without it, in the three hours before the newest commit, which a landing usually
# takes.
set -euo pipefail
cd "$(dirname "$0")/.."
before=$(($(git show -s --format=%ct HEAD) - 3 * 3600))
base=${CI_BASE:-$(git rev-list -1 --before="$before" HEAD)}
git diff --name-only "${base:-HEAD}" -- '*.go' internal/serve/console deploy hack/release hack/release.sh \
  hack/package.sh hack/test-packages.sh | xargs -r -n1 dirname | sort -u
