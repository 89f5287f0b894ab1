package e2e

import (
	"crypto/sha512"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// bootRack is a rack whose server offers the test's image, and its DHCP server.
func bootRack(t *testing.T) *rack { return bootRackWith(t, testISO) }

func bootRackWith(t *testing.T, iso func(*testing.T) string, args ...string) *rack {
	t.Helper()
	return bootRackBeside(t, "--dhcp-boot=http://"+rackServer+":8082/boot.ipxe", iso, args...)
}

// bootRackBeside is bootRackWith for a DHCP server with an option of its own; "": there is none.
func bootRackBeside(t *testing.T, dhcp string, iso func(*testing.T) string, args ...string) *rack {
	t.Helper()
	needs(t, "root", "ip", "qemu-system-x86_64", "dnsmasq", "grub-mkrescue", "xorriso", "mformat", "busybox", "modprobe",
		"ldd")
	image := iso(t)
	isos := t.TempDir()
	if err := os.Link(image, filepath.Join(isos, "guest.iso")); err != nil {
		t.Fatal(err)
	}
	r := newRack(t, append([]string{"--iso-dir", isos, "--http-url", "http://" + rackServer + ":8082",
		"--unknown-hosts", "menu"}, args...)...)
	if dhcp != "" {
		r.dhcp(map[string]string{"52:54:00:00:00:01": "192.0.2.11", "52:54:00:00:00:02": "192.0.2.12",
			"52:54:00:00:00:03": "192.0.2.13", "52:54:00:00:00:05": "192.0.2.15"}, dhcp)
	}
	r.apply(bootObjects)
	for _, image := range []string{"plain", "locked", "web"} {
		testkit.Until(t, "image "+image+" is ready", func() bool {
			return r.kubectl("get", "cdrom", "-n", "rack", image, "-o", "jsonpath={.status.phase}") == "Ready"
		})
	}
	return r
}

const bootObjects = `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: plain, namespace: rack}
spec:
  isoFile: guest.iso
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal"]
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: locked, namespace: rack}
spec:
  isoFile: guest.iso
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal"]
  chap: {username: rack, password: "correct horse battery", mutualUsername: server, mutualPassword: "another horse"}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: web, namespace: rack}
spec:
  isoFile: guest.iso
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal"]
  transport: http
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11, image: plain}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:02", ip: 192.0.2.12, image: locked, kernelArgs: [test.complete, test.host=two]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: three, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:03", ip: 192.0.2.13, image: web}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: by-mac, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:04", image: plain}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: uefi, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:05", ip: 192.0.2.15, image: plain}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: motd, namespace: rack}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.4.0
    storage:
      files:
        - path: /etc/motd
          contents: {inline: "written by Ignition"}
  selector: {default: true}
`

// shows fails the test unless the console shows all of it.
func shows(t *testing.T, console string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(console, text) {
			t.Fatalf("the console does not show %q:\n%s", text, launch.Tail(console, 5000))
		}
	}
}

// TestBoot boots machines in every way: iPXE from the card's own ROM, our script,
// our target, GRUB of the image, Linux, the config URL from the kernel argument
// that was set, and Ignition.
func TestBoot(t *testing.T) {
	r := bootRack(t)
	for _, c := range []struct {
		name, host, mac string
		n               int
		uefi            bool
		console, events []string
	}{
		{"BIOS", "one", "52:54:00:00:00:01", 1, false, []string{"192.0.2.11"},
			[]string{"ScriptServed", "TargetLogin", "KernelRead", "InitrdRead", "ConfigServed"}},
		{"CHAP, own arguments, boot-complete", "two", "52:54:00:00:00:02", 2, false, []string{"test.host=two",
			"GUEST-COMPLETE"},
			[]string{"ScriptServed", "TargetLogin", "KernelRead", "InitrdRead", "ConfigServed", "BootComplete"}},
		{"HTTP", "three", "52:54:00:00:00:03", 3, false, []string{"192.0.2.13"},
			[]string{"ScriptServed", "KernelRead", "InitrdRead", "ConfigServed"}},
		{"by MAC alone", "by-mac", "52:54:00:00:00:04", 4, false, []string{"192.0.2.1"},
			[]string{"ScriptServed", "TargetLogin", "KernelRead", "InitrdRead", "ConfigServed"}},
		{"UEFI", "uefi", "52:54:00:00:00:05", 5, true, []string{"192.0.2.15"},
			[]string{"ScriptServed", "TargetLogin", "KernelRead", "InitrdRead", "ConfigServed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			console := r.guest(c.n, c.mac, c.uefi).boot(t, "GUEST-DONE", diskMarker)
			shows(t, console, append(c.console, "ignition.config.url=http://"+rackServer+":8082/api/v1/ignition",
				"GUEST-FILE written by Ignition", "GUEST-DONE")...)
			if strings.Contains(console, "GUEST-FAILED") {
				t.Errorf("Ignition failed:\n%s", launch.Tail(console, 5000))
			}
			state := "Provisioning"
			if c.host == "two" {
				state = "Provisioned"
			}
			testkit.Until(t, "the status says so", func() bool {
				return r.status(c.host, "state") == state && r.status(c.host, "lastConfig") == "rack/motd" && r.status(c.host,
					"bootCount") == "1"
			})
			testkit.Until(t, "each step is an event", func() bool {
				events := r.events(c.host)
				for _, reason := range c.events {
					if !strings.Contains(events, reason) {
						return false
					}
				}
				return true
			})
			var steps []string
			for _, reason := range c.events {
				steps = append(steps, stepOf[reason])
			}
			testkit.Until(t, "the boot has each step", func() bool {
				has := strings.Fields(r.kubectl("get", "boot", "-n", "rack", c.host+".1", "-o", "jsonpath={.steps[*].name}"))
				return !slices.ContainsFunc(steps, func(step string) bool { return !slices.Contains(has, step) })
			})
			testkit.Until(t, "replay gives the bytes that Ignition has read", func() bool {
				sum := sha512.Sum512(r.glowplug("replay", c.host+".1", "-n", "rack"))
				return strings.Contains(console, "parsing config with SHA512: "+hex.EncodeToString(sum[:]))
			})
		})
	}
}

// stepOf has the step of a boot that is the event with a reason.
var stepOf = map[string]string{
	"ScriptServed": "Script", "TargetLogin": "TargetLogin", "KernelRead": "Kernel", "InitrdRead": "Initrd",
	"ConfigServed": "Config", "BootComplete": "BootComplete",
}

const protectedObjects = `
apiVersion: v1
kind: Namespace
metadata:
  name: rack
  annotations:
    glowplug.dev/provisioning-token: "true"
    glowplug.dev/provisioning-window: 2h
    glowplug.dev/provisioning-max-fetches: "20"
---
apiVersion: v1
kind: Secret
metadata: {name: initiators, namespace: rack}
stringData: {username: rack, password: "correct horse battery", mutualUsername: server, mutualPassword: "another horse"}
---
apiVersion: v1
kind: Secret
metadata: {name: join, namespace: rack}
stringData: {token: ` + plantedSecret + `}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: locked, namespace: rack}
spec:
  isoFile: guest.iso
  access: hosts
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal", test.complete]
  chap: {secretName: initiators}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:02", ip: 192.0.2.12, image: locked}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: uefi, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:05", ip: 192.0.2.15, image: locked}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: motd, namespace: rack}
spec:
  type: ignition
  format: butane
  template: true
  config: |
    variant: fcos
    version: 1.4.0
    storage:
      files:
        - path: /etc/motd
          contents: {inline: "written by Ignition with {{ secret "join" "token" }}"}
  selector: {default: true}
`

// TestBootWithAllProtection boots machines with everything that protects a config switched on: an
// encrypted store, a Secret in a template, CHAP from a Secret, an image for its hosts alone, the token of
// the boot and a provisioning window, which is closed afterwards.
func TestBootWithAllProtection(t *testing.T) {
	needs(t, "tcpdump")
	r := bootRackWith(t, testISO, "--encrypt", "--configs-over-https")
	r.apply(protectedObjects)
	packets := r.capture()
	for _, c := range []struct {
		host, mac string
		n         int
		uefi      bool
	}{
		{"two", "52:54:00:00:00:02", 2, false},
		{"uefi", "52:54:00:00:00:05", 5, true},
	} {
		t.Run(c.host, func(t *testing.T) {
			console := r.guest(c.n, c.mac, c.uefi).boot(t, "GUEST-DONE", diskMarker)
			shows(t, console, "ignition.config.url=http://"+rackServer+":8082/api/v1/ignition?token=",
				"GUEST-FILE written by Ignition with "+plantedSecret, "GUEST-COMPLETE", "GUEST-DONE")
			token := tokenForm.FindString(console)
			planted.plant(token)
			testkit.Until(t, "the window is closed", func() bool {
				return r.status(c.host, "provisioning.closed") != "" && r.status(c.host, "state") == "Provisioned"
			})
			if captured := packets(); strings.Contains(captured, plantedSecret) ||
				!strings.Contains(captured, "certificateAuthorities") {
				t.Error("the config has crossed the network in the clear, or nothing was captured")
			}
			for _, text := range []string{plantedSecret, token, "correct horse battery", "another horse"} {
				if strings.Contains(r.server.log.String(), text) {
					t.Errorf("the log has %q", text)
				}
				holdsNot(t, r.server.dir, text)
			}
			if events := r.events(c.host); strings.Contains(events, "TokenRefused") || strings.Contains(events, token) {
				t.Errorf("events: %s", events)
			}
		})
	}
}

// capture captures what crosses the network of the rack over HTTP and HTTPS from now on, and returns a function
// that returns it.
func (r *rack) capture() (packets func() string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "packets")
	cmd := exec.Command("ip", "netns", "exec", r.name, "tcpdump", "-i", "br0", "-Z", "root", "-U", "--immediate-mode",
		"-s", "0", "-w", file, "tcp port 8082 or tcp port 8443")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testkit.Until(r.t, "tcpdump has begun", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	return func() string {
		content, err := os.ReadFile(file)
		if err != nil {
			r.t.Error(err)
		}
		return string(content)
	}
}

// TestBootMenu has an unknown machine shown what it can boot.
func TestBootMenu(t *testing.T) {
	r := bootRack(t)
	console := r.guest(9, "52:54:00:00:00:09", false).boot(t, "rack/web", diskMarker)
	shows(t, console, "this machine is not known here", "52:54:00:00:00:09", "Boot the disk", "rack/plain", "rack/web")
	if strings.Contains(console, "rack/locked") {
		t.Error("it is offered an image with a password")
	}
	testkit.Until(t, "it is an event", func() bool {
		return strings.Contains(r.kubectl("get", "events", "-n", "default"), "UnknownHost")
	})
}

// TestBootDracut boots a machine whose system is systemd, started by dracut with
// Ignition's own module, as on the distributions that have Ignition.
func TestBootDracut(t *testing.T) {
	testkit.NeedsThorough(t)
	needs(t, "dracut", "dhclient", "arping")
	r := bootRackWith(t, dracutISO)
	console := r.guest(1, "52:54:00:00:00:01", false).boot(t, "GUEST-DONE", "emergency mode", diskMarker)
	shows(t, console, "GUEST-CMDLINE", "ignition.config.url=http://"+rackServer+":8082/api/v1/ignition",
		"GUEST-FILE written by Ignition")
}

// TestBootOnce boots a machine with bootMode once four times: its image, then
// its disk, also after the server was killed; and its image again when it is
// armed again.
func TestBootOnce(t *testing.T) {
	testkit.NeedsThorough(t)
	r := bootRack(t)
	g := r.guest(1, "52:54:00:00:00:01", false)
	installs := func() {
		t.Helper()
		shows(t, g.boot(t, "GUEST-DONE", diskMarker), "GUEST-FILE written by Ignition")
	}
	boots := func() {
		t.Helper()
		console := g.boot(t, "GUEST-CMDLINE", diskMarker)
		shows(t, console, diskMarker)
		if strings.Contains(console, "GUEST-CMDLINE") {
			t.Fatalf("the image was booted again:\n%s", launch.Tail(console, 3000))
		}
	}
	installs()
	boots()
	testkit.Until(t, "it is provisioned", func() bool { return r.status("one", "state") == "Provisioned" })
	r.server.kill()
	r.server.restart()
	boots()
	boots()
	testkit.Until(t, "four boots are counted", func() bool { return r.status("one", "bootCount") == "4" })
	if events := r.events("one"); !strings.Contains(events, "LocalBoot") {
		t.Errorf("events: %s", events)
	}
	r.kubectl("annotate", "bmh", "-n", "rack", "one", "glowplug.dev/rearm=again")
	installs()
}
