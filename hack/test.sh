#!/usr/bin/env bash
# Installs what the tests need (Debian packages, where root can) and runs all of
# them: with the race detector, with real clients and network namespaces, and
# each fuzz target for ten seconds. Tests that skip are listed with their reason
# and counted.
set -euo pipefail
cd "$(dirname "$0")/.."

packages="nginx-light socat iproute2 libblkid-dev gcc libc6-dev curl jq"
# For boots of emulated machines: QEMU with iPXE and UEFI, a DHCP server, a kernel,
# and what makes an ISO image of it.
packages="$packages qemu-system-x86 ipxe-qemu ovmf dnsmasq-base linux-image-cloud-amd64 kmod busybox-static
  ignition dracut-core dracut-network isc-dhcp-client iputils-arping tcpdump grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools"
# For ISO images as other tools make and read them, and for iSCSI clients.
packages="$packages dosfstools isolinux syslinux-common syslinux-utils genisoimage isomd5sum libiscsi-bin qemu-utils qemu-block-extra"
# For the disks stage of Ignition on loop devices.
packages="$packages gdisk fdisk e2fsprogs xfsprogs btrfs-progs exfatprogs ntfs-3g lvm2"
# For the alert rules: promtool.
packages="$packages prometheus"
# For the systemd unit and the container image.
packages="$packages systemd buildah"
# DHCP servers, which check the configurations of docs/guides/dhcp.md.
packages="$packages isc-dhcp-server kea-dhcp4-server"
missing=""
for p in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "== installing$missing"
    (
      # With this policy of Debian no package starts its service; one that is there stays.
      policy=/usr/sbin/policy-rc.d
      if [ ! -e $policy ]; then
        trap 'rm -f $policy' EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
      fi
      apt-get update -qq
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    )
  else
    echo "== not installed, and root is needed to install:$missing; tests that need them skip" >&2
  fi
fi

failed=0
export TEST_E2E=1
PLANTED_REPORT=$(mktemp)
export PLANTED_REPORT
# -count=1: test/e2e and test/cluster build the program that they run, of which Go's
# cache of test results knows nothing.
echo "== all packages, with the race detector and real clients"
CGO_ENABLED=1 go tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg \
  -- -race -count=1 -timeout 30m ./... || failed=1
echo "== $(cat "$PLANTED_REPORT")"
rm -f "$PLANTED_REPORT"
echo "== three NATS servers and two of glowplug under faults, by themselves: starved of the processor they would fail on time alone"
TEST_CLUSTER=1 go test -v -count=1 -run '^TestCluster$' -timeout 10m ./test/cluster || failed=1
echo "== hostile sources, without the race detector"
go test -run '^TestHostile$' -timeout 10m ./internal/domain/compile || failed=1
echo "== random Ignition configs, without the race detector"
go test -timeout 20m ./internal/domain/ignition || failed=1

unset TEST_E2E
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
