#!/usr/bin/env bash
# Runs the tests that take long: loops over random input and very large inputs (TEST_ALL), each
# fuzz target for ten seconds, 500 pairs of a plan and the real Ignition, the stories that wait for
# slow machines, the console in a browser, and the packages in a Debian of their own. With folders as
# arguments it runs those of these alone.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/install-test-packages.sh

failed=0
chosen=$(printf '%s\n' "$@")
owned() { # keeps the folders that were chosen
  if [ -z "$chosen" ]; then cat; else grep -xF "$chosen" || true; fi
}

long=$(git grep -lE 'testkit\.(Few|Thorough|NeedsThorough)' -- 'internal/*_test.go' | xargs -n1 dirname | sort -u | owned)
if [ -n "$long" ]; then
  echo "== random and very large input:" $long
  TEST_ALL=1 TEST_E2E=1 go test -count=1 -timeout 40m $(sed 's|^|./|' <<<"$long") || failed=1
fi
if [ -n "$(printf '%s\n' internal/domain/plan internal/domain/disk test/plan | owned)" ]; then
  make test-plan || failed=1
fi

# Machines that are emulated slowly, by themselves: beside other tests they would fail on time alone.
booted='^(internal/(serve/(machine|pxe|tftp|iscsi)|domain/(decide|grub|ipxe|iso)|store/boots|loader)(/.*)?|test/e2e)$'
if [ -z "$chosen" ] || grep -qE "$booted" <<<"$chosen"; then
  stories=$(awk '/^func Test/ {name = $2; sub(/\(.*/, "", name)} /testkit.NeedsThorough/ {print name}' test/e2e/*_test.go)
  echo "== stories of slow machines:" $stories
  TEST_ALL=1 TEST_E2E=1 go test -count=1 -timeout 40m -run "^($(paste -sd '|' <<<"$stories"))\$" ./test/e2e || failed=1
fi

# The console shows what these have: its pages, the words of remedies, and the API.
shown='^(internal/serve/console(/.*)?|internal/domain/wording|internal/serve/api|test/console)$'
if [ -z "$chosen" ] || grep -qE "$shown" <<<"$chosen"; then
  echo "== the console in a browser"
  make test-console || failed=1
fi

# What a release is made of.
installed='^(deploy/(packages|container|systemd)(/.*)?|hack|hack/(release|genman)(/.*)?)$'
if [ -z "$chosen" ] || grep -qE "$installed" <<<"$chosen"; then
  echo "== the packages, and the tools that make them"
  (cd hack/release && go vet ./... && go test ./...) || failed=1
  make test-packages || failed=1
fi

fuzz=$(git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go')
targets=0
fuzz_once() {
  go test -run '^$' -fuzz "^$1\$" -fuzztime 10s -fuzzminimizetime 1s "./$2" 2>&1
}
# A race in Go's fuzzer fails a target with nothing but "context deadline exceeded"
# when its time is up (golang/go#75804, mended in Go 1.27). That is no finding, and
# the run is repeated; a finding leaves a failing input.
cut_off() {
  grep -q 'context deadline exceeded' <<<"$1" && ! grep -q 'Failing input written' <<<"$1"
}
while IFS=: read -r file func; do
  [ -n "$(dirname "$file" | owned)" ] || continue
  target=${func#func }
  targets=$((targets + 1))
  dir=$(dirname "$file")
  for attempt in 1 2 3; do
    result=0
    out=$(fuzz_once "$target" "$dir") || result=$?
    [ $result != 0 ] && [ $attempt != 3 ] && cut_off "$out" || break
    echo "fuzz $target: the fuzzer was cut off by its own clock; once more"
  done
  if [ $result != 0 ]; then
    echo "$out"
    failed=1
  fi
  echo "$out" | grep -E '^(ok|FAIL)' | sed "s/^/fuzz $target: /"
done <<<"$fuzz"
echo "== $targets fuzz targets"
exit $failed
