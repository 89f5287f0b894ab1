#!/usr/bin/env bash
# Prints the folders with Go files that were changed since the commit CI_BASE or, without it,
# in the day before the newest commit.
set -euo pipefail
cd "$(dirname "$0")/.."
day_before=$(($(git show -s --format=%ct HEAD) - 86400))
base=${CI_BASE:-$(git rev-list -1 --before="$day_before" HEAD)}
git diff --name-only "${base:-HEAD}" -- '*.go' | xargs -r -n1 dirname | sort -u
