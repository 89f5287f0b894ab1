#!/usr/bin/env bash
# Runs the benchmarks and writes docs/internals/benchmarks.md. Takes well over twenty minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
packages="wrk nginx-light libiscsi-bin tgt xorriso tftpd-hpa dnsmasq-base ipxe ovmf qemu-system-x86"
for tool in wrk nginx iscsi-perf tgtd xorriso in.tftpd dnsmasq qemu-system-x86_64; do
  if ! command -v "$tool" >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
  fi
done
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/bench" ./test/bench
"$bin/bench" -o docs/internals/benchmarks.md "$@"
