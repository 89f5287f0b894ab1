package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestIgnition boots the real Ignition binary, without a machine: it fetches its
// config from the URL in a kernel command line, and applies it to a folder.
func TestIgnition(t *testing.T) {
	needs(t, "root")
	s := start(t)
	s.kubectl(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: node, namespace: rack}
spec: {ip: 127.0.0.1, labels: {role: worker}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.7.0
    storage:
      files:
        - path: /etc/motd
          mode: 0640
          contents: {inline: "served by glowplug\n"}
      links:
        - path: /etc/link
          target: /etc/motd
    systemd:
      units:
        - name: hello.service
          enabled: true
          contents: |
            [Service]
            ExecStart=/bin/true
            [Install]
            WantedBy=multi-user.target
  selector:
    matchLabels: {role: worker}
`, "apply", "-f", "-")

	dir := t.TempDir()
	cmdline := filepath.Join(dir, "cmdline")
	write(t, cmdline, "ignition.platform.id=metal ignition.config.url="+s.url("/api/v1/ignition")+"\n")
	binary := filepath.Join(dir, "ignition")
	const pkg = "github.com/coreos/ignition/v2/internal"
	if err := buildTool(pkg, binary, "-X "+pkg+"/version.Raw=2.26.0 -X "+pkg+"/distro.kernelCmdlinePath="+cmdline+
		" -X "+pkg+"/distro.selinuxRelabel=false"); err != nil {
		if _, statErr := os.Stat("/usr/include/blkid/blkid.h"); statErr != nil {
			t.Skipf("needs libblkid-dev: %v", err)
		}
		t.Fatal(err)
	}

	machine := filepath.Join(dir, "root")
	for _, file := range []string{"passwd", "group", "shadow", "gshadow"} {
		write(t, filepath.Join(machine, "etc", file), "")
	}
	for _, stage := range []string{"fetch-offline", "fetch", "files"} {
		out, err := exec.CommandContext(t.Context(), binary, "--platform", "metal", "--stage", stage, "--root", machine,
			"--config-cache", filepath.Join(dir, "cache"), "--state-file", filepath.Join(dir, "state"),
			"--neednet", filepath.Join(dir, "neednet"), "--log-to-stdout").CombinedOutput()
		if err != nil {
			t.Fatalf("stage %s: %v\n%s", stage, err, out)
		}
	}
	if got := read(t, filepath.Join(machine, "etc/motd")); got != "served by glowplug\n" {
		t.Errorf("/etc/motd: %q", got)
	}
	if info, err := os.Stat(filepath.Join(machine, "etc/motd")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("/etc/motd: %v %v", info, err)
	}
	if target, err := os.Readlink(filepath.Join(machine, "etc/link")); err != nil || target != "/etc/motd" {
		t.Errorf("/etc/link: %q %v", target, err)
	}
	if unit := read(t, filepath.Join(machine, "etc/systemd/system/hello.service")); !strings.Contains(unit,
		"ExecStart=/bin/true") {
		t.Errorf("hello.service: %q", unit)
	}
	testkit.Until(t, "the host's status names the config it was served", func() bool {
		return s.kubectl("", "get", "bmh", "-n", "rack", "node", "-o", "jsonpath={.status.lastConfig}") == "rack/worker"
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
