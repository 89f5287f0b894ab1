#!/usr/bin/env bash
# Runs the tests of every landing: all packages, those with shared memory under the race
# detector, the stories with real clients and network namespaces, and the cluster once.
# make test-all has the rest, such as the console in a browser. Tests that skip are listed with
# their reason and counted.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/install-test-packages.sh

failed=0
export TEST_E2E=1
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# run FLAGS PACKAGES... counts what skips, and lists failures at its end. -count=1: test/e2e
# and test/cluster build the program that they run, of which Go's cache knows nothing.
run() {
  go tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg -- -count=1 -timeout 30m "$@"
}

all=$(go list ./... | sed 's|^glowplug/||')
own='^test/(e2e|cluster|console)$'
# Where goroutines meet: what starts one, or guards memory that several use.
shared=$(git grep -lE '"sync"|"sync/atomic"|^\s+go ' -- 'internal/*.go' ':!*_test.go' ':!internal/domain' | xargs -n1 dirname | sort -u)
pure=$(grep -vE "$own" <<<"$all" | grep -vxF "$shared" || true)
in_tree() { sed 's|^|./|' <<<"$1"; }

# Stories wait for machines more than they compute: two halves, by the first letter.
echo "== the stories with real clients run beside the packages; their result comes after these"
half='^Test[A-E]'
PLANTED_REPORT=$results/planted1 run -run "$half" ./test/e2e >"$results/stories1" 2>&1 &
first=$!
PLANTED_REPORT=$results/planted2 run -skip "$half" ./test/e2e >"$results/stories2" 2>&1 &
second=$!
echo "== packages whose goroutines share memory, with the race detector"
CGO_ENABLED=1 run -race $(in_tree "$shared") || failed=1
echo "== all other packages"
run $(in_tree "$pure") || failed=1
wait $first || failed=1
wait $second || failed=1
cat "$results"/stories?
cat "$results"/planted? || true # a half that was ended has none
echo "== three NATS servers and two of glowplug under faults, by themselves: starved of the processor they would fail on time alone"
TEST_CLUSTER=1 go test -v -count=1 -run '^TestCluster$' -timeout 10m ./test/cluster || failed=1
exit $failed
