#!/usr/bin/env bash
# Installs the Debian packages that the tests need, where root can.
set -euo pipefail

packages="nginx-light socat iproute2 libblkid-dev gcc libc6-dev curl jq"
# For boots of emulated machines: QEMU with iPXE and UEFI, a DHCP server, a kernel,
# and what makes an ISO image of it.
packages="$packages qemu-system-x86 ipxe-qemu ipxe ovmf shim-signed grub-efi-amd64-signed dnsmasq-base linux-image-cloud-amd64 kmod busybox-static
  ignition dracut-core dracut-network isc-dhcp-client iputils-arping tcpdump grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools"
# For boots of an emulated arm64 machine; the installer has shim, GRUB, a kernel and a busybox for it.
packages="$packages qemu-system-arm qemu-efi-aarch64 debian-installer-12-netboot-arm64"
# For ISO images as other tools make and read them, and for iSCSI clients.
packages="$packages dosfstools isolinux syslinux-common syslinux-utils genisoimage isomd5sum libiscsi-bin qemu-utils qemu-block-extra"
# For the disks stage of Ignition on loop devices.
packages="$packages gdisk fdisk e2fsprogs xfsprogs btrfs-progs exfatprogs ntfs-3g lvm2"
# For the alert rules: promtool.
packages="$packages prometheus"
# For the systemd unit and the container image.
packages="$packages systemd buildah"
# For the packages of a release, in a Debian of their own, and their manual pages.
packages="$packages debootstrap rpm groff-base"
# DHCP servers, which check the configurations of docs/guides/boot-path.md.
packages="$packages isc-dhcp-server kea-dhcp4-server"
# For the console: a browser.
packages="$packages chromium"
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
