#!/usr/bin/env bash
# Tries the console in a browser, by itself: timings follow the load of the machine. With
# GLOWPLUG_SCREENSHOTS, an absolute path of a folder, it takes pictures of the pages instead.
# It needs npm once, for axe-core.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/install-test-packages.sh

export TEST_CONSOLE=1
chosen=.
if [ -n "${GLOWPLUG_SCREENSHOTS:-}" ]; then
  mkdir -p "$GLOWPLUG_SCREENSHOTS"
  chosen='^(TestPages|TestNavigation|TestSignInWithAToken)$'
fi
go tool gotestsum --format testname -- -count=1 -timeout 6m -run "$chosen" ./test/console
