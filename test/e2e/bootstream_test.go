package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
	"glowplug/test/launch"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// streamFolder is a mirror of a stream: its files, signed, and the key.
type streamFolder struct {
	t       *testing.T
	dir     string
	key     *openpgp.Entity
	keyring string
	// arch is the architecture of the releases; "": x86_64.
	arch string
}

func newStreamFolder(t *testing.T) *streamFolder {
	t.Helper()
	key, err := openpgp.NewEntity("Releases", "", "releases@rack.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	if err := key.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	f := &streamFolder{t: t, dir: t.TempDir(), key: key, keyring: filepath.Join(t.TempDir(), "keys.gpg")}
	write(t, f.keyring, public.String())
	return f
}

// add puts a copy of a file into the folder, with its signature, and returns what a
// document says of it.
func (f *streamFolder) add(name, from string) map[string]string {
	f.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		f.t.Fatal(err)
	}
	var signature bytes.Buffer
	if err := openpgp.DetachSign(&signature, f.key, bytes.NewReader(content), nil); err != nil {
		f.t.Fatal(err)
	}
	write(f.t, filepath.Join(f.dir, name), string(content))
	write(f.t, filepath.Join(f.dir, name+".sig"), signature.String())
	location := "http://" + rackServer + ":8082/streams/artifacts/" + name
	return map[string]string{"location": location, "signature": location + ".sig", "sha256": sha256File(f.t, from)}
}

// release returns a StreamRelease with these formats of the artifact metal.
func (f *streamFolder) release(stream, release string, formats map[string]any) string {
	f.t.Helper()
	document, err := json.Marshal(map[string]any{
		"stream": stream,
		"metadata": map[string]string{"last-modified": release[3:7] + "-" + release[7:9] + "-" + release[9:11] +
			"T00:00:00Z"},
		"architectures": map[string]any{cmp.Or(f.arch, "x86_64"): map[string]any{"artifacts": map[string]any{
			"metal": map[string]any{"release": release, "formats": formats},
		}, "images": map[string]any{}}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "StreamRelease", "metadata": map[string]string{"name": stream + "-" + release},
		"spec": map[string]string{"stream": stream, "release": release, "document": string(document)},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return string(object)
}

const streamObjects = `
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: live, namespace: rack}
spec:
  stream: {name: stable, update: follow}
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal"]
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: files, namespace: rack}
spec:
  stream: {name: stable, format: pxe}
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal", "console=ttyS0,115200", "panic=1"]
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11, image: live}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:02", ip: 192.0.2.12, image: files, kernelArgs: [test.host=two]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: uefi, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:05", ip: 192.0.2.15, image: files}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: installed, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:06", image: files, rootDeviceHints: {deviceName: /dev/vda}}
`

// installs boots a machine with a blank disk: its image installs the system on the disk, with the config for that, and
// then the machine boots its disk, until it is armed again.
func installs(t *testing.T, r *rack) {
	guest := r.guest(6, "52:54:00:00:00:06", false)
	guest.blank = true
	write(t, guest.disk(), strings.Repeat("\x00", 1<<20))
	for round, want := range []string{"GUEST-INSTALLED on /dev/vda", diskMarker, diskMarker, "GUEST-INSTALLED on /dev/vda"} {
		if round == 3 {
			r.glowplug("reinstall", "rack/installed", "--yes")
		}
		console := guest.boot(t, "GUEST-DONE", "GUEST-FAILED", diskMarker)
		shows(t, console, want)
		if strings.Contains(console, "ignition.config.url") {
			t.Errorf("the live system gets the config of the installed one:\n%s", launch.Tail(console, 3000))
		}
		state := r.status("installed", "state")
		if wanted := map[int]string{0: "Provisioning", 1: "Provisioned", 2: "Provisioned", 3: "Provisioning"}[round]; state != wanted {
			t.Errorf("boot %d: %s, want %s", round, state, wanted)
		}
	}
	disk, err := os.ReadFile(guest.disk())
	if err != nil || !strings.Contains(string(disk[64<<10:]), "/etc/motd") {
		t.Errorf("the config is not on the disk: %v", err)
	}
	outcomes := r.kubectl("get", "boots", "-n", "rack", "--field-selector", "host=installed", "-o",
		"jsonpath={range .items[*]}{.outcome} {end}")
	if outcomes != "Provisioning LocalBoot LocalBoot Provisioned " {
		t.Errorf("the boots, the newest first: %s", outcomes)
	}
}

// TestBootStream boots machines from a release of a stream: its ISO image over
// iSCSI, and its kernel, initramfs and root file system one by one. What is booted
// was downloaded from a mirror and verified, signatures included.
func TestBootStream(t *testing.T) {
	r, f, image := streamRack(t, "--dhcp-boot=http://"+rackServer+":8082/boot.ipxe")
	for _, c := range []struct {
		name, host, mac string
		n               int
		uefi            bool
		console, events []string
	}{
		{"ISO", "one", "52:54:00:00:00:01", 1, false, nil, []string{"ScriptServed", "TargetLogin", "KernelRead", "InitrdRead",
			"ConfigServed"}},
		{"kernel", "two", "52:54:00:00:00:02", 2, false, []string{"test.host=two",
			"GUEST-ROOTFS hsqs: the root file system of the release"},
			[]string{"ScriptServed", "KernelRead", "InitrdRead", "RootfsRead", "ConfigServed"}},
		{"kernel, UEFI", "uefi", "52:54:00:00:00:05", 5, true,
			[]string{"GUEST-ROOTFS hsqs: the root file system of the release"},
			[]string{"ScriptServed", "KernelRead", "InitrdRead", "RootfsRead", "ConfigServed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			console := r.guest(c.n, c.mac, c.uefi).boot(t, "GUEST-DONE", diskMarker)
			shows(t, console, append(c.console, "ignition.config.url=http://"+rackServer+":8082/api/v1/ignition",
				"GUEST-FILE written by Ignition", "GUEST-DONE")...)
			if strings.Contains(console, "GUEST-FAILED") {
				t.Errorf("Ignition failed:\n%s", launch.Tail(console, 5000))
			}
			testkit.Until(t, "each step is an event", func() bool {
				events := r.events(c.host)
				for _, reason := range c.events {
					if !strings.Contains(events, reason) {
						return false
					}
				}
				return true
			})
		})
	}
	t.Run("installation", func(t *testing.T) { installs(t, r) })
	// A release that is not signed by the key is not taken.
	forged := newStreamFolder(t)
	forged.dir = f.dir
	content, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.iso")
	write(t, other, string(content)+strings.Repeat("\x00", 2048))
	r.apply(forged.release("stable", "45.20261115.3.0",
		map[string]any{"iso": map[string]any{"disk": forged.add("forged.iso", other)}}))
	testkit.Until(t, "it is refused", func() bool {
		return strings.Contains(r.kubectl("get", "cdrom", "-n", "rack", "live", "-o",
			"jsonpath={.status.phase} {.status.servedRelease} {.status.errorMessage}"),
			"Ready 44.20261101.3.0 spec.stream: the file is not taken: its signature is by none of the keys of the keyring")
	})
}

// streamRack is a rack whose server offers a release of a stream, beside a DHCP server with an option. It returns the
// folder of the stream, and the ISO image of the release.
func streamRack(t *testing.T, dhcp string, args ...string) (r *rack, f *streamFolder, image string) {
	t.Helper()
	r, f, image = newStreamRack(t, dhcp, append([]string{"--http-url", "http://" + rackServer + ":8082"}, args...)...)
	config := bootObjects[strings.LastIndex(bootObjects, "---\napiVersion: v1\nkind: IgnitionConfig"):]
	r.apply(streamObjects + config)
	r.kubectl("wait", "cdrom", "live", "files", "-n", "rack", "--for=condition=UpToDate", "--timeout=60s")
	for _, name := range []string{"live", "files"} {
		testkit.Until(t, "image "+name+" is ready", func() bool {
			return r.kubectl("get", "cdrom", "-n", "rack", name, "-o",
				"jsonpath={.status.phase} {.status.servedRelease} {.status.maxIgnition}") ==
				"Ready 44.20261101.3.0 3.6.0"
		})
	}
	return r, f, image
}

// newStreamRack is streamRack without objects but the release.
func newStreamRack(t *testing.T, dhcp string, args ...string) (r *rack, f *streamFolder, image string) {
	t.Helper()
	needs(t, "root", "ip", "qemu-system-x86_64", "dnsmasq", "grub-mkrescue", "xorriso", "mformat", "busybox", "modprobe",
		"ldd")
	image = testISO(t)
	tree := strings.TrimSuffix(image, ".iso")
	rootfs := filepath.Join(t.TempDir(), "rootfs")
	write(t, rootfs, "hsqs: the root file system of the release")
	f = newStreamFolder(t)
	release := f.release("stable", "44.20261101.3.0", map[string]any{
		"iso": map[string]any{"disk": f.add("live.iso", image)},
		"pxe": map[string]any{
			"kernel": f.add("kernel", filepath.Join(tree, "boot/vmlinuz")), "initramfs": f.add("initramfs.img",
				filepath.Join(tree, "boot/initrd.img")),
			"rootfs": f.add("rootfs.img", rootfs),
		},
	})
	r = f.rack(args...)
	if dhcp != "" {
		r.dhcp(map[string]string{"52:54:00:00:00:01": "192.0.2.11", "52:54:00:00:00:02": "192.0.2.12",
			"52:54:00:00:00:05": "192.0.2.15"}, dhcp)
	}
	r.apply(release)
	return r, f, image
}

// rack is a rack whose server takes the releases of the folder.
func (f *streamFolder) rack(args ...string) *rack {
	f.t.Helper()
	return newRack(f.t, append([]string{"--iso-dir", f.t.TempDir(), "--streams-dir", f.dir, "--keyring", f.keyring,
		"--allow-image-fetch", rackServer}, args...)...)
}
