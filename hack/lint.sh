#!/usr/bin/env bash
# Formatting, vet, staticcheck, errors that nothing looks at, the complexity of functions,
# known vulnerabilities, the architecture test, and generated files that are regenerated and compared.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  echo "error: not gofmt-clean:" $unformatted >&2
  exit 1
fi
go vet ./...
go tool staticcheck ./...
go tool errcheck -ignoretests -exclude hack/errcheck.txt ./...
unmeasured='_test\.go$|zz_generated|/testdata/'
lines=$(git ls-files 'api/*.go' 'cmd/*.go' 'internal/*.go' | grep -vE "$unmeasured" | xargs cat | wc -l)
complex=$(go tool gocyclo -ignore "$unmeasured" api cmd internal | awk '$1 > 10')
count=$(grep -c . <<<"$complex" || true)
if [ $((count * 10000)) -gt $((lines * 23)) ]; then
  echo "$complex"
  echo "error: $count functions have a cyclomatic complexity of more than 10: in $lines lines, at most" \
    "$((lines * 23 / 10000)) may" >&2
  echo "hint: simplify those that you changed: give a condition or a step a name, use a table, or return early" >&2
  exit 1
fi
go run ./hack/vulncheck
go test ./internal/architecture

./hack/generate.sh
if [ -n "$(git status --porcelain -- api docs/reference)" ]; then
  git --no-pager diff -- api docs/reference
  git status --porcelain -- api docs/reference
  echo "error: generated files are not up to date" >&2
  echo "hint: run make generate and commit the result" >&2
  exit 1
fi
echo "lint: all clean"
