package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"glowplug/internal/domain/disk"
)

// machine is a mount namespace with a loop device, in which Ignition runs. The thread of the test
// is in the namespace, so the test has to keep it.
type machine struct {
	t        *testing.T
	dir      string
	ignition string
}

// needs skips the test, with the reason, where it cannot run.
func needs(t *testing.T, commands ...string) {
	t.Helper()
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("TEST_E2E is not set: make test runs this")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for loop devices and a mount namespace")
	}
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("needs %s, which is not installed", c)
		}
	}
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	needs(t, "sgdisk", "sfdisk", "losetup", "partx", "lsblk", "blkid", "wipefs", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs",
		"mkfs.fat", "mkswap")
	if _, err := os.Stat("/usr/include/blkid/blkid.h"); err != nil {
		t.Skip("needs libblkid-dev")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("needs loop devices")
	}
	m := &machine{t: t, dir: t.TempDir()}
	m.ignition = filepath.Join(m.dir, "ignition")
	const pkg = "github.com/coreos/ignition/v2/internal"
	build(t, pkg, m.ignition, "-X "+pkg+"/version.Raw=2.26.0 -X "+pkg+"/distro.selinuxRelabel=false", "1")
	devices := filepath.Join(m.dir, "devices")
	build(t, "./devices", devices, "", "0")

	runtime.LockOSThread() // for good: the thread ends with the goroutine
	for _, step := range []func() error{
		func() error { return syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_FS) },
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return syscall.Mount("tmpfs", "/run", "tmpfs", 0, "") },
		func() error { return os.MkdirAll("/run/systemd", 0o755) },
		func() error { return os.MkdirAll("/run/udev/data", 0o755) },
		func() error { return os.WriteFile("/run/udev/control", nil, 0o644) },
		func() error { return os.MkdirAll(m.path("bin"), 0o755) },
		// A udevadm that does what udev and the kernel do for Ignition: /dev has the partitions of the disk.
		func() error {
			return os.WriteFile(m.path("bin/udevadm"), []byte(`#!/bin/sh
for last; do :; done
case $last in /dev/loop*p[0-9]*) exit 0 ;; esac
partx --delete "$last" 2>/dev/null
partx --add "$last" 2>/dev/null
exit 0
`), 0o755)
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	systemd := exec.Command(devices, "/run/systemd/private")
	systemd.Stderr = os.Stderr
	if err := systemd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = systemd.Process.Kill()
		_ = systemd.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat("/run/systemd/private"); err == nil {
			return m
		}
		if time.Now().After(end) {
			t.Fatal("the stand-in for systemd does not listen")
		}
	}
}

func build(t *testing.T, pkg, output, ldflags, cgo string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", output, "-ldflags", ldflags, pkg)
	cmd.Dir = filepath.Join("..", "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// run runs a command that has to succeed, and returns its output.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.try(name, args...)
	if err != nil {
		m.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (m *machine) try(name string, args ...string) (string, error) {
	if name == "udevadm" {
		name = m.path("bin/udevadm")
	}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PATH="+m.path("bin")+":"+os.Getenv("PATH"), "IGNITION_CONFIG_FILE="+m.path("config.ign"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if err != nil {
		return out.String() + stderr.String(), err
	}
	return out.String(), nil
}

// attach makes a blank disk, and returns its device.
func (m *machine) attach(mib, sector int) string {
	m.t.Helper()
	image := m.path("disk.img")
	_ = os.Remove(image)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Truncate(image, int64(mib)<<20); err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(m.run("losetup", "--find", "--show", "--partscan", "--sector-size", fmt.Sprint(sector), image))
}

// detach removes the disk. Ignition leaves its mounts to its umount stage.
func (m *machine) detach(device string) {
	m.t.Helper()
	mounts, err := os.ReadFile("/proc/thread-self/mounts")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], m.path("root")) {
			m.run("umount", fields[1])
		}
	}
	m.run("losetup", "--detach", device)
	_ = os.RemoveAll(m.path("root"))
	for _, name := range []string{"cache", "state", "neednet"} {
		_ = os.Remove(m.path(name))
	}
}

// facts returns what lsblk says of the disk where udev has looked at it, and sfdisk of a GPT.
func (m *machine) facts(device string, withSfdisk bool) (*disk.Facts, error) {
	m.t.Helper()
	m.settle(device)
	for line := range strings.Lines(m.run("lsblk", "--noheadings", "--list", "--paths", "--output", "NAME,MAJ:MIN", device)) {
		fields := strings.Fields(line)
		found, _ := m.try("blkid", "-p", "-o", "udev", fields[0]) // nothing found is exit code 2
		record := "I:1\n"
		for property := range strings.Lines(found) {
			record += "E:" + property
		}
		if err := os.WriteFile("/run/udev/data/b"+fields[1], []byte(record), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	facts, err := disk.Read([]byte(m.run("lsblk", "--bytes", "--json", "--output-all", device)))
	table, failed := m.try("sfdisk", "--json", device)
	if err != nil || failed != nil || !withSfdisk {
		return facts, err
	}
	exact, err := disk.Read([]byte(table))
	if err != nil {
		return nil, err
	}
	return disk.Join(facts, exact)
}

// settle lets the kernel read the partition table.
func (m *machine) settle(device string) { m.run("udevadm", "trigger", device) }

// boot runs Ignition's stages with a config, and returns the error of the one that fails.
func (m *machine) boot(config []byte) (stage, log string, err error) {
	if err := os.WriteFile(m.path("config.ign"), config, 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.MkdirAll(m.path("root"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	for _, stage := range []string{"fetch-offline", "fetch", "disks", "mount"} {
		log, err := m.try(m.ignition, "--platform", "file", "--stage", stage, "--root", m.path("root"),
			"--config-cache", m.path("cache"), "--state-file", m.path("state"), "--neednet", m.path("neednet"), "--log-to-stdout")
		if err != nil {
			return stage, log, err
		}
	}
	return "", "", nil
}

// found is what blkid says of a partition or a disk, with the label as libblkid reads it.
type found struct {
	Start, Size       int64
	Label, Type, UUID string
}

// state returns the partitions of the disk, by number, and the whole disk as number 0.
func (m *machine) state(device string) map[int]found {
	m.t.Helper()
	m.settle(device)
	state := map[int]found{0: m.probe(device, found{})}
	out, err := m.try("sfdisk", "--json", device)
	if err != nil {
		return state // there is no table
	}
	var dump struct {
		PartitionTable struct {
			Partitions []struct {
				Node, Name  string
				Start, Size int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &dump); err != nil {
		m.t.Fatal(err)
	}
	for _, p := range dump.PartitionTable.Partitions {
		var number int
		_, _ = fmt.Sscanf(strings.TrimPrefix(p.Node, device), "p%d", &number)
		state[number] = m.probe(p.Node, found{Start: p.Start, Size: p.Size, Label: strings.TrimRight(p.Name, " ")})
	}
	return state
}

func (m *machine) probe(device string, f found) found {
	out, _ := m.try("blkid", "-p", "-o", "export", device)
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "TYPE":
			f.Type = value
		case "UUID":
			f.UUID = value
		}
	}
	return f
}
