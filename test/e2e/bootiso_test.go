package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"glowplug/test/launch"
)

// guestInit is the first process of the test's system: it brings up its network,
// lets the real Ignition fetch and apply the config whose URL stands on the
// kernel's command line, and shows what came of it.
const guestInit = `#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
for module in $(cat /modules/order); do insmod /modules/$module; done
echo "GUEST-CMDLINE $(cat /proc/cmdline)"
ip link set eth0 up
udhcpc -i eth0 -q -n -t 10 -T 1 -s /udhcpc.sh || echo GUEST-FAILED no address
echo "GUEST-ADDRESS $(ip -4 -o addr show eth0)"
device=$(sed -n 's|.*coreos.inst.install_dev=\([^ ]*\).*|\1|p' /proc/cmdline)
if [ -n "$device" ]; then # a fake of coreos-installer, which Debian does not have: it does the same with these arguments
	config=$(sed -n 's|.*coreos.inst.ignition_url=\([^ ]*\).*|\1|p' /proc/cmdline)
	system=/disk at=64
	if [ -d /sys/firmware/efi ]; then # its system is larger, and no part of the initramfs
		system=/run/disk at=$((10 * 1024))
		wget -q -O $system "${config%%/api/*}/assets/disk.efi" || echo GUEST-FAILED no system
	fi
	wget -q -O /run/config "$config" && dd if=$system of=$device conv=notrunc 2>/dev/null &&
		dd if=/run/config of=$device bs=1024 seek=$at conv=notrunc 2>/dev/null && sync && echo GUEST-INSTALLED on $device
	reboot -f
fi
mkdir -p /sysroot/etc/selinux
echo SELINUXTYPE=none >/sysroot/etc/selinux/config
for stage in fetch-offline fetch files; do
	/ignition --platform metal --stage $stage --root /sysroot --config-cache /run/ignition.json \
		--state-file /run/ignition-state --neednet /run/neednet --log-to-stdout || echo "GUEST-FAILED stage $stage"
done
echo "GUEST-FILE $(cat /sysroot/etc/motd)"
url=$(sed -n 's|.*ignition.config.url=\(http://[^/]*\)/.*|\1|p' /proc/cmdline)
rootfs=$(sed -n 's|.*coreos.live.rootfs_url=\([^ ]*\).*|\1|p' /proc/cmdline)
[ -z "$rootfs" ] || echo "GUEST-ROOTFS $(wget -q -O - $rootfs)"
case " $(cat /proc/cmdline) " in *" test.complete "*) wget -q -O - --post-data= "$url/api/v1/boot-complete" && echo GUEST-COMPLETE;; esac
echo GUEST-DONE
reboot -f
`

const guestDHCP = `#!/bin/busybox sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip addr add $ip/24 dev $interface
for r in $router; do ip route add default via $r; done
`

const debianIgnition = "/usr/lib/dracut/modules.d/30ignition/ignition"

// setfiles is a fake of the SELinux tool, which the guest does not have and Ignition asks for.
const setfiles = "#!/bin/sh\ncat >/dev/null\n"

// testISO builds, once, an ISO image that boots with BIOS and UEFI: GRUB, Debian's
// kernel, and an initial RAM disk with busybox and Ignition. Its command line has
// no config URL. It skips the test, with the reason, where something is missing.
func testISO(t *testing.T) string { return built(t, smallISO) }

// dracutISO is the same with an initial RAM disk that dracut makes, systemd and
// Ignition's own dracut module in it.
func dracutISO(t *testing.T) string { return built(t, systemdISO) }

func built(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Skip(err)
	}
	return path
}

var smallISO = sync.OnceValues(func() (string, error) { return buildISO("guest", guestInitrd, "") })

var systemdISO = sync.OnceValues(func() (string, error) {
	return buildISO("dracut", dracutInitrd, " ignition.firstboot rd.neednet=1 ip=dhcp")
})

// buildISO builds an image of a name with an initial RAM disk for the kernel.
func buildISO(name string, initrdFor func(release string) ([]byte, error), args string) (string, error) {
	kernels, _ := filepath.Glob("/boot/vmlinuz-*-amd64")
	if len(kernels) == 0 {
		return "", fmt.Errorf("needs a Debian kernel in /boot (linux-image-cloud-amd64)")
	}
	if _, err := os.Stat(debianIgnition); err != nil {
		return "", fmt.Errorf("needs Debian's package ignition: %w", err)
	}
	kernel := kernels[len(kernels)-1]
	initrd, err := initrdFor(strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"))
	if err != nil {
		return "", err
	}
	vmlinuz, err := os.ReadFile(kernel)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(program), name)
	if err := writeTree(dir, map[string]string{
		"boot/initrd.img": string(initrd),
		"boot/vmlinuz":    string(vmlinuz),
		"boot/grub/grub.cfg": "set timeout=0\nmenuentry test {\n\techo GRUB\n" +
			"\tlinux /boot/vmlinuz console=ttyS0,115200 panic=1 loglevel=4" + args + "\n\tinitrd /boot/initrd.img\n}\n",
	}); err != nil {
		return "", err
	}
	image := dir + ".iso"
	if out, err := exec.Command("grub-mkrescue", "-o", image, dir, "--", "-volid", "GUEST").CombinedOutput(); err != nil {
		return "", fmt.Errorf("grub-mkrescue: %w\n%s", err, launch.Tail(string(out), 2000))
	}
	return image, nil
}

// writeTree writes files below a folder, those in bin folders executable. A text
// that begins with "->" is a symbolic link.
func writeTree(dir string, files map[string]string) error {
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if target, link := strings.CutPrefix(text, "->"); link {
			if err := os.Symlink(target, path); err != nil {
				return err
			}
			continue
		}
		if strings.Contains(name, "bin/") || strings.Contains(name, "/hooks/") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// dracutTree is what the test adds to dracut's RAM disk: a root in memory, as of
// a live system, and a service that shows what Ignition wrote to it.
var dracutTree = map[string]string{
	"usr/bin/is-live-image":                     "#!/bin/sh\nexit 0\n",
	"usr/sbin/setfiles":                         setfiles,
	"usr/lib/dracut/hooks/cmdline/99-memory.sh": "root=memory; rootok=1\n",
	"usr/lib/systemd/system/sysroot.mount": "[Unit]\nDefaultDependencies=no\nBefore=initrd-root-fs.target\n" +
		"[Mount]\nWhat=tmpfs\nWhere=/sysroot\nType=tmpfs\n",
	"usr/lib/systemd/system/initrd-root-fs.target.requires/sysroot.mount": "->../sysroot.mount",
	"usr/lib/systemd/system/guest-root.service": "[Unit]\nDefaultDependencies=no\nRequires=sysroot.mount\nAfter=sysroot.mount\n" +
		"Before=ignition-files.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n" +
		"ExecStart=/bin/sh -c 'mkdir -p /sysroot/etc/selinux; echo SELINUXTYPE=none >/sysroot/etc/selinux/config'\n",
	"usr/lib/systemd/system/ignition-complete.target.requires/guest-root.service": "->../guest-root.service",
	"usr/lib/systemd/system/guest-show.service": "[Unit]\nDefaultDependencies=no\nRequires=ignition-files.service\n" +
		"After=ignition-files.service\nBefore=initrd-parse-etc.service initrd-switch-root.target\n" +
		"[Service]\nType=oneshot\nExecStart=/usr/bin/guest-show\n",
	"usr/lib/systemd/system/ignition-complete.target.requires/guest-show.service": "->../guest-show.service",
	"usr/bin/guest-show": "#!/bin/sh\n{ echo \"GUEST-CMDLINE $(cat /proc/cmdline)\"; echo \"GUEST-FILE $(cat " +
		"/sysroot/etc/motd)\"; " +
		"echo GUEST-DONE; } >/dev/console\nsleep 1\nreboot -f\n",
}

// dracutInitrd has dracut make the initial RAM disk for a kernel.
func dracutInitrd(release string) ([]byte, error) {
	dir := filepath.Join(filepath.Dir(program), "dracut-tree")
	if err := writeTree(dir, dracutTree); err != nil {
		return nil, err
	}
	image := dir + ".img"
	out, err := exec.Command("dracut", "--force", "--no-hostonly", "--no-early-microcode", "--gzip", "--kver", release,
		"--modules", "base systemd systemd-initrd dracut-systemd network-legacy network url-lib ignition qemu fs-lib "+
			"udev-rules",
		"--drivers", "virtio_pci virtio_net", "--include", dir, "/", image).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("dracut: %w\n%s", err, launch.Tail(string(out), 2000))
	}
	return os.ReadFile(image)
}

// guestInitrd returns the initial RAM disk for a kernel.
func guestInitrd(release string) ([]byte, error) {
	c := &cpio{}
	for _, dir := range []string{"bin", "proc", "sys", "dev", "run", "sysroot", "modules", "lib", "lib64", "usr", "etc"} {
		c.add(dir, 0o40755, nil)
	}
	c.add("init", 0o100755, []byte(guestInit))
	c.add("disk", 0o100644, bootDisk())
	c.add("udhcpc.sh", 0o100755, []byte(guestDHCP))
	c.add("bin/setfiles", 0o100755, []byte(strings.Replace(setfiles, "#!", "#!/bin/busybox ", 1)))
	programs := map[string]string{"bin/busybox": "/bin/busybox", "ignition": debianIgnition}
	out, err := exec.Command("ldd", debianIgnition).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd: %w", err)
	}
	made := map[string]bool{"lib": true, "lib64": true, "usr": true}
	for field := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(field, "/") {
			for i, r := range field {
				if dir := field[1:max(i, 1)]; r == '/' && i > 0 && !made[dir] {
					made[dir] = true
					c.add(dir, 0o40755, nil)
				}
			}
			programs[field[1:]] = field
		}
	}
	var order []string
	for _, module := range []string{"virtio_pci", "virtio_net", "virtio_blk"} {
		out, err := exec.Command("modprobe", "--show-depends", "-S", release, module).Output()
		if err != nil {
			return nil, fmt.Errorf("modprobe %s: %w", module, err)
		}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); fields[0] == "insmod" && programs["modules/"+filepath.Base(fields[1])] == "" {
				name := filepath.Base(fields[1])
				programs["modules/"+name] = fields[1]
				order = append(order, name)
			}
		}
	}
	for name, from := range programs {
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		c.add(name, 0o100755, data)
	}
	c.add("modules/order", 0o100644, []byte(strings.Join(order, "\n")))
	return c.end(), nil
}

// cpio is an archive in the "newc" format, which the kernel unpacks.
type cpio struct {
	b     bytes.Buffer
	inode int
}

func (c *cpio) add(name string, mode int, data []byte) {
	c.inode++
	fmt.Fprintf(&c.b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", c.inode, mode, 0, 0, 1, 0, len(data),
		0, 0, 0, 0, len(name)+1, 0)
	c.b.WriteString(name + "\x00")
	c.pad()
	c.b.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.b.Len()%4 != 0 {
		c.b.WriteByte(0)
	}
}

func (c *cpio) end() []byte {
	c.add("TRAILER!!!", 0, nil)
	return c.b.Bytes()
}
