package e2e

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// installerARM64 has Debian's installer for arm64: a signed shim and GRUB, a kernel, and an initial RAM disk.
const installerARM64 = "/usr/lib/debian-installer/images/12/arm64/text/debian-installer/arm64"

// guestInitARM64 is the first process of the arm64 system. The programs and the modules are those of the installer.
const guestInitARM64 = `#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
echo "GUEST-CMDLINE $(cat /proc/cmdline)"
for module in virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net; do
	insmod $(find /lib/modules -name $module.ko)
done
udhcpc -i eth0 -q -n -t 10 -T 1 || echo GUEST-FAILED no address
url=$(sed -n 's|.*ignition.config.url=\([^ ]*\).*|\1|p' /proc/cmdline)
echo "GUEST-CONFIG $(wget -q -O - "$url")"
wget -q -O - --post-data= "${url%%/api/*}/api/v1/boot-complete" && echo GUEST-COMPLETE
echo GUEST-DONE
reboot -f
`

// guestInitrdARM64 returns the initial RAM disk of the installer with another first process: the kernel unpacks one
// archive after the other, and the last file of a name stays.
func guestInitrdARM64(t *testing.T) string {
	t.Helper()
	initrd, err := os.ReadFile(filepath.Join(installerARM64, "initrd.gz"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cpio{}
	c.add("init", 0o100755, []byte(guestInitARM64))
	b := bytes.NewBuffer(initrd)
	w := gzip.NewWriter(b)
	_, _ = w.Write(c.end())
	_ = w.Close()
	return b.String()
}

// TestNetworkBootARM64: firmware of an arm64 machine gets an address and shim from the server, shim GRUB, and GRUB the
// configuration, the kernel and the initial RAM disk of its machine over TFTP. Debian 12 has no iPXE for arm64.
func TestNetworkBootARM64(t *testing.T) {
	testkit.NeedsThorough(t)
	needs(t, "root", "ip", "qemu-system-aarch64")
	for _, file := range []string{aavmfCode, aavmfVars, installerARM64} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("needs Debian's packages qemu-efi-aarch64 and debian-installer-12-netboot-arm64: %v", err)
		}
	}
	f := newStreamFolder(t)
	f.arch = "aarch64"
	initrd, rootfs := filepath.Join(t.TempDir(), "initrd"), filepath.Join(t.TempDir(), "rootfs")
	write(t, initrd, guestInitrdARM64(t))
	write(t, rootfs, "hsqs: the root file system of the release")
	release := f.release("stable", "44.20261101.3.0", map[string]any{"pxe": map[string]any{
		"kernel": f.add("kernel", filepath.Join(installerARM64, "linux")), "initramfs": f.add("initramfs.img", initrd),
		"rootfs": f.add("rootfs.img", rootfs),
	}})
	r := f.rack("--http-url", "http://"+rackServer+":8082", "--pxe-interface", "br0", "--dhcp-range",
		"192.0.2.100-192.0.2.199", "--boot-loaders", installerARM64)
	r.apply(release)
	r.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: rack}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: arm, namespace: rack}
spec:
  stream: {name: stable, architecture: aarch64, format: pxe}
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "console=ttyAMA0", "panic=1"]
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: arm, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:08", image: arm, pxe: {loader: bootnetaa64.efi}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: empty, namespace: rack}
spec:
  type: ignition
  format: ignition
  config: '{"ignition": {"version": "3.4.0"}}'
  selector: {default: true}
`)
	r.kubectl("wait", "cdrom", "arm", "-n", "rack", "--for=condition=UpToDate", "--timeout=60s")
	guest := r.guest(8, "52:54:00:00:00:08", false)
	guest.arm64, guest.uefi, guest.stock, guest.blank = true, true, true, true
	vars, err := os.ReadFile(aavmfVars)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(guest.dir, "vars"), string(vars))
	console := guest.boot(t, "GUEST-DONE", "grub>", "Shell>")
	shows(t, console, "GUEST-CMDLINE BOOT_IMAGE=(tftp,"+rackServer+")/iso/rack/arm@", `GUEST-CONFIG {"ignition":`,
		"GUEST-COMPLETE")
	boot := r.kubectl("get", "boots", "-n", "rack", "arm.1", "-o", "jsonpath={.outcome} {.steps[*].name}")
	if boot != "Provisioned Script Kernel Initrd Config BootComplete" {
		t.Errorf("the boot: %s", boot)
	}
	if got := r.leases(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "52:54:00:00:00:08 rack/arm Bound") {
		t.Errorf("the leases: %s", got)
	}
}
