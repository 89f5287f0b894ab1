package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// iscsiModule is QEMU's initiator.
const iscsiModule = "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"

// TestPatchedImage reads a patched image whole over iSCSI, with libiscsi: it is
// what `glowplug iso customize` writes, and the file that it was made of is
// untouched. xorriso then extracts every file as it was, but the patched one. The
// files over HTTP are those that it extracts.
func TestPatchedImage(t *testing.T) {
	needs(t, "qemu-img", "xorriso")
	if _, err := os.Stat(iscsiModule); err != nil {
		t.Skip("needs qemu-block-extra, which is not installed")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	write(t, filepath.Join(tree, "boot/grub/grub.cfg"),
		"menuentry 'Linux' {\n  linux /boot/vmlinuz quiet\n  initrd /boot/initrd\n}\n")
	write(t, filepath.Join(tree, "boot/vmlinuz"), strings.Repeat("kernel ", 300_000))
	write(t, filepath.Join(tree, "boot/initrd"), strings.Repeat("initrd ", 300_000))
	isos := filepath.Join(dir, "isos")
	source := filepath.Join(isos, "linux.iso")
	write(t, filepath.Join(isos, ".keep"), "")
	output(t, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-V", "LINUX", "-o", source, tree)
	before := sha256File(t, source)

	const argument = "inst.ks=${glowplug}/api/v1/kickstart"
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--iso-dir", isos, "--iscsi-listen", portal, "--iscsi-portal", portal, "--http-url",
		"http://192.0.2.1:8082")
	s.kubectl(`
apiVersion: v1
kind: ISCSICdrom
metadata: {name: linux, namespace: default}
spec: {isoFile: linux.iso, kernelArgs: ["`+argument+`", "console=ttyS0"]}
`, "apply", "-f", "-")
	s.kubectl("", "wait", "cdrom", "linux", "--for=condition=Ready", "--timeout=20s")
	iqn := s.kubectl("", "get", "cdrom", "linux", "-o", "jsonpath={.status.targetIQN}")

	read, written := filepath.Join(dir, "read.iso"), filepath.Join(dir, "written.iso")
	output(t, "qemu-img", "convert", "-f", "raw", "-O", "raw", "iscsi://"+portal+"/"+iqn+"/0", read)
	output(t, program, "iso", "customize", source, "-o", written, "--http-url", "http://192.0.2.1:8082", "--karg",
		argument, "--karg", "console=ttyS0")
	if over, file := sha256File(t, read), sha256File(t, written); over != file {
		t.Errorf("over iSCSI %s, by iso customize %s", over, file)
	}
	if after := sha256File(t, source); after != before {
		t.Errorf("the original has changed: %s, was %s", after, before)
	}

	extracted := filepath.Join(dir, "extracted")
	output(t, "xorriso", "-osirrox", "on", "-indev", read, "-extract", "/", extracted)
	for _, name := range []string{"boot/vmlinuz", "boot/initrd"} {
		if sha256File(t, filepath.Join(extracted, name)) != sha256File(t, filepath.Join(tree, name)) {
			t.Errorf("%s has changed", name)
		}
	}
	grub, err := os.ReadFile(filepath.Join(extracted, "boot/grub/grub.cfg"))
	if err != nil || !strings.Contains(string(grub),
		"linux /boot/vmlinuz quiet inst.ks=http://192.0.2.1:8082/api/v1/kickstart console=ttyS0") {
		t.Errorf("grub.cfg: %v\n%s", err, grub)
	}
	served := func(name string, extracted string) {
		t.Helper()
		want, err := os.ReadFile(filepath.Join(extracted, name))
		if err != nil {
			t.Fatal(err)
		}
		url := s.url("/iso/default/linux/files/" + name)
		if status, got := fetch(t, url, ""); status != http.StatusOK || got != string(want) {
			t.Errorf("%s over HTTP: %d, %d bytes of %d", name, status, len(got), len(want))
		}
		if status, got := fetch(t, url, "bytes=-20"); status != http.StatusPartialContent ||
			got != string(want[len(want)-20:]) {
			t.Errorf("the end of %s over HTTP: %d, %q", name, status, got)
		}
	}
	for _, name := range []string{"boot/grub/grub.cfg", "boot/vmlinuz"} {
		served(name, extracted)
	}

	// An argument for which the old place of the file has no room.
	long := "x=" + strings.Repeat("y", 1940)
	s.kubectl("", "patch", "cdrom", "linux", "--type=merge", "-p", `{"spec":{"defaultKernelArgs":false,"kernelArgs":["`+long+`"]}}`)
	testkit.Until(t, "the new argument is set", func() bool {
		return strings.Contains(s.kubectl("", "get", "cdrom", "linux", "-o", "jsonpath={.status.kernelArgsApplied}"), long)
	})
	moved, movedTo := filepath.Join(dir, "moved.iso"), filepath.Join(dir, "moved")
	output(t, program, "iso", "customize", source, "-o", moved, "--karg", long)
	output(t, "xorriso", "-osirrox", "on", "-indev", moved, "-extract", "/", movedTo)
	for _, name := range []string{"boot/grub/grub.cfg", "boot/initrd"} {
		served(name, movedTo)
	}
}

// fetch returns what a URL answers, or a range of it.
func fetch(t *testing.T, url, byteRange string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestArgumentsThatCannotBeSet has a host whose own kernel arguments GRUB cannot hand
// on: the machine is shown why, and so is whoever describes the host.
func TestArgumentsThatCannotBeSet(t *testing.T) {
	needs(t, "qemu-img", "xorriso")
	if _, err := os.Stat(iscsiModule); err != nil {
		t.Skip("needs qemu-block-extra, which is not installed")
	}
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--iso-dir", isoDir(t), "--iscsi-listen", portal, "--iscsi-portal", portal)
	s.applyLinux(`ip: 127.0.0.1, kernelArgs: ["x='y'"]`)
	const reason = "/boot/grub/grub.cfg: GRUB cannot hand on the kernel argument x='y'"
	events := func() string {
		return s.kubectl("", "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.count} {.message}{'\\n'}{end}")
	}
	if _, script := fetch(t, s.url("/ipxe"), ""); !strings.Contains(script, reason) || !strings.HasSuffix(script,
		"exit 1\n") {
		t.Errorf("the script:\n%s", script)
	}
	testkit.Until(t, "the script's event", func() bool {
		return strings.Contains(events(), "ImageUnavailable 1 ") && strings.Contains(events(), reason)
	})

	state := func() string { return s.kubectl("", "get", "bmh", "one", "-o", "jsonpath={.status.state}") }
	testkit.Until(t, "the state", func() bool { return state() == "Error" })

	// A machine that comes all the same, with a script of before.
	iqn := s.kubectl("", "get", "cdrom", "linux", "-o", "jsonpath={.status.targetIQN}")
	if out, err := exec.CommandContext(t.Context(), "qemu-img", "info", "iscsi://"+portal+"/"+iqn+
		"/0").CombinedOutput(); err == nil {
		t.Errorf("it could log in:\n%s", out)
	}
	if status, body := fetch(t, s.url("/iso/default/linux.iso"), ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, reason) {
		t.Errorf("over HTTP: %d %s", status, body)
	}
	testkit.Until(t, "the login and the download as events", func() bool {
		return strings.Contains(events(),
			"ImageUnavailable 3 ")
	})

	s.kubectl("", "patch", "bmh", "one", "--type=merge", "-p", `{"spec":{"kernelArgs":["x=y"]}}`)
	testkit.Until(t, "a script that boots", func() bool {
		_, script := fetch(t, s.url("/ipxe"), "")
		return strings.Contains(script, "sanboot iscsi:")
	})
	testkit.Until(t, "the state", func() bool { return state() == "Booting" })
}

// TestForcedDeletion takes an image away from a machine that reads it: not without
// being asked twice, and then its session is over.
func TestForcedDeletion(t *testing.T) {
	needs(t, "qemu-io", "xorriso")
	if _, err := os.Stat(iscsiModule); err != nil {
		t.Skip("needs qemu-block-extra, which is not installed")
	}
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--iso-dir", isoDir(t), "--iscsi-listen", portal, "--iscsi-portal", portal)
	s.kubectl(`
apiVersion: v1
kind: ISCSICdrom
metadata: {name: linux, namespace: default}
spec: {isoFile: linux.iso, defaultKernelArgs: false}
`, "apply", "-f", "-")
	s.kubectl("", "wait", "cdrom", "linux", "--for=jsonpath={.status.phase}=Ready", "--timeout=20s")
	iqn := s.kubectl("", "get", "cdrom", "linux", "-o", "jsonpath={.status.targetIQN}")

	reader := exec.CommandContext(t.Context(), "qemu-io", "-r", "-f", "raw", "-c", "read 0 4k", "-c", "sleep 60000",
		"iscsi://"+portal+"/"+iqn+"/0")
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Process.Kill(); _ = reader.Wait() }()
	testkit.Until(t, "a session", func() bool { return strings.Contains(s.log.String(), "session began") })
	if _, stderr, err := s.tryKubectl("", "delete", "cdrom", "linux"); err == nil || !strings.Contains(stderr,
		"it is being read by") {
		t.Errorf("%v: %s", err, stderr)
	}
	if _, stderr, err := s.tryKubectl("", "delete", "cdrom", "linux", "--force",
		"--grace-period=0"); err != nil { // it warns, always
		t.Errorf("%v: %s", err, stderr)
	}
	testkit.Until(t, "the end of the session", func() bool {
		return strings.Contains(s.log.String(),
			"the sessions of a deleted image were ended")
	})
}

func output(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func sha256File(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}
