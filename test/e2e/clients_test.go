package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var clientsReport = flag.String("clients-report", "",
	"write what real clients were given to this file, see hack/test-clients.sh")

// client is a release of Ignition, as its machines run it.
type client struct {
	release string
	// module has the binary, in the folder of test/clients of its release; none for
	// the binary at path, which Debian's package brings.
	module, path string
	// platform is how the binary takes the name of one, argument the kernel argument
	// that names the config, and stages what its machines run of it before systemd.
	platform, argument string
	stages             []string
	// newest is the spec version that it reads.
	newest string
	// state tells that it keeps its state in files of its own.
	state bool
}

var clients = []client{
	{release: "0.35.0", module: "github.com/coreos/ignition", platform: "--oem", argument: "coreos.config.url",
		stages: []string{"fetch", "files"}, newest: "2.4.0"},
	{release: "2.0.1", module: "github.com/coreos/ignition/v2", platform: "--platform", argument: "ignition.config.url",
		stages: []string{"files"}, newest: "3.0.0"},
	{release: "2.9.0", module: "github.com/coreos/ignition/v2", platform: "--platform", argument: "ignition.config.url",
		stages: []string{"fetch-offline", "fetch", "files"}, newest: "3.2.0"},
	{release: "Debian's 2.14.0", path: "/usr/lib/dracut/modules.d/30ignition/ignition", platform: "--platform",
		argument: "ignition.config.url", stages: []string{"fetch-offline", "fetch", "files"}, newest: "3.3.0", state: true},
	{release: "2.26.0", module: "github.com/coreos/ignition/v2", platform: "--platform", argument: "ignition.config.url",
		stages: []string{"fetch-offline", "fetch", "files"}, newest: "3.6.0", state: true},
}

// zeros are so many that Butane compresses them.
var zeros = strings.Repeat("0", 1000)

// clientConfigs are the config everywhere, which every release of Ignition can be
// given, and the config arguments, whose fields spec 3.3.0 and later have.
var clientConfigs = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: everywhere, namespace: rack}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.7.0
    storage:
      directories:
        - path: /opt/tools
          mode: 0755
          user: {id: 0}
          group: {id: 0}
        - path: /opt/data
        - path: /etc/kept
      files:
        - path: /etc/kept/file
          mode: 0600
          overwrite: true
          contents: {inline: "kept\n"}
        - path: /opt/data/zeros
          mode: 0644
          overwrite: true
          contents: {inline: "` + zeros + `"}
        - path: /etc/motd
          mode: 0640
          overwrite: true
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
          dropins:
            - name: 10-more.conf
              contents: |
                [Service]
                Nice=5
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: arguments, namespace: rack}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.7.0
    kernel_arguments:
      should_exist: [mitigations=auto]
    storage:
      files:
        - path: /etc/motd
          mode: 0640
          overwrite: true
          contents: {inline: "served by glowplug\n"}
`

// TestClients boots every release of Ignition from the same two stored configs: each
// applies what it is given, or is told which field it cannot be given.
func TestClients(t *testing.T) {
	needs(t, "root", "unshare", "gcc")
	s := start(t)
	s.kubectl(clientConfigs, "apply", "-f", "-")
	var rows []string
	for _, c := range clients {
		t.Run(c.release, func(t *testing.T) {
			binary := c.binary(t)
			for _, config := range []string{"everywhere", "arguments"} {
				got := c.boot(t, binary, s.admin("/api/v1/ignition?role="+config))
				applied := "everything"
				switch refused := config == "arguments" && c.newest < "3.3.0"; {
				case refused && (got.status != http.StatusNotAcceptable || !strings.Contains(got.body, "$.kernelArguments")):
					t.Errorf("%s: answered %d %q, want 406 that names $.kernelArguments", config, got.status, got.body)
				case refused && got.err == nil:
					t.Errorf("%s: it goes on after a 406\n%s", config, got.log)
				case refused:
					applied = "nothing: " + strings.TrimSpace(got.body)
				case got.err != nil || got.status != http.StatusOK:
					t.Errorf("%s: answered %d, %v\n%s", config, got.status, got.err, got.log)
				case !strings.Contains(got.body, `"version":"`+c.newest+`"`):
					t.Errorf("%s: given %q, want spec %s", config, got.body, c.newest)
				default:
					applied = c.applied(t, config, got.root)
				}
				given := fmt.Sprint(got.status)
				if got.status == http.StatusOK {
					given += ", spec " + c.newest
				}
				rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | `%s` | %s | %s |", c.release, config, got.accept, got.userAgent,
					given, applied))
			}
		})
	}
	if *clientsReport == "" || t.Failed() {
		return
	}
	text, err := os.ReadFile(*clientsReport)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n| client |")
	table := "\n| client | config | Accept that it sent | User-Agent | got | applied |\n|---|---|---|---|---|---|\n"
	write(t, *clientsReport, head+table+strings.Join(rows, "\n")+"\n")
}

// binary builds the release. It is kept with the user's caches, where Go finds that
// it need not be built again.
func (c client) binary(t *testing.T) string {
	t.Helper()
	if c.module == "" {
		if _, err := os.Stat(c.path); err != nil {
			t.Skipf("needs Debian's package ignition: %v", err)
		}
		return c.path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	binary := filepath.Join(cache, "glowplug-clients", "ignition-"+c.release)
	internal := c.module + "/internal"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "-ldflags",
		"-X "+internal+"/version.Raw="+c.userAgent()+" -X "+internal+"/distro.selinuxRelabel=false", internal)
	build.Dir = filepath.Join(root, "test", "clients", c.release)
	if c.release == "2.26.0" {
		build.Dir = filepath.Join(root, "test", "tools")
	}
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		if _, statErr := os.Stat("/usr/include/blkid/blkid.h"); statErr != nil {
			t.Skipf("needs libblkid-dev: %v", err)
		}
		t.Fatalf("building Ignition %s: %v\n%s", c.release, err, out)
	}
	return binary
}

// userAgent is the version that the releases were built with, which their User-Agent
// shows: with a v in the first line.
func (c client) userAgent() string {
	if strings.HasPrefix(c.release, "0.") {
		return "v" + c.release
	}
	return c.release
}

// booted is what became of a boot: the request of the client, the answer to it, and
// the folder that it took for the root of its machine.
type booted struct {
	accept, userAgent string
	status            int
	body, root, log   string
	err               error
}

// boot runs the stages of a boot. The client takes its config through a proxy that
// writes down what it asks and is told.
func (c client) boot(t *testing.T, binary, config string) booted {
	t.Helper()
	var got booted
	target, err := url.Parse(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = target, target.Host
			got.accept, got.userAgent = r.In.Header.Get("Accept"), r.In.Header.Get("User-Agent")
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			r.Body = io.NopCloser(bytes.NewReader(body))
			got.status, got.body = r.StatusCode, string(body)
			return err
		},
	})
	defer proxy.Close()

	dir := t.TempDir()
	got.root = filepath.Join(dir, "root")
	write(t, filepath.Join(dir, "cmdline"), "ignition.platform.id=metal "+c.argument+"="+proxy.URL+"/\n")
	for _, file := range []string{"passwd", "group", "shadow", "gshadow"} {
		write(t, filepath.Join(got.root, "etc", file), "")
	}
	if err := os.Mkdir(filepath.Join(got.root, "etc/kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	// Debian's labels its files, with the machine's own policy.
	write(t, filepath.Join(got.root, "etc/selinux/config"), "SELINUX=permissive\nSELINUXTYPE=targeted\n")
	write(t, filepath.Join(got.root, "etc/selinux/targeted/contexts/files/file_contexts"),
		"/.* system_u:object_r:root_t:s0\n")
	write(t, filepath.Join(dir, "bin/setfiles"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "bin/setfiles"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, stage := range c.stages {
		args := []string{"--mount", "sh", "-c", `mount --bind "$0" /proc/cmdline && exec "$@"`, filepath.Join(dir, "cmdline"),
			binary,
			c.platform, "metal", "--stage", stage, "--root", got.root, "--config-cache", filepath.Join(dir, "cache"),
			"--log-to-stdout"}
		if c.state {
			args = append(args, "--state-file", filepath.Join(dir, "state"), "--neednet", filepath.Join(dir, "neednet"))
		}
		run := exec.CommandContext(t.Context(), "unshare", args...)
		run.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		out, err := run.CombinedOutput()
		got.log += string(out)
		if err != nil {
			got.err = fmt.Errorf("stage %s: %w", stage, err)
			return got
		}
	}
	return got
}

// applied looks for what the config asks for in the root of the machine, and lists
// what it finds.
func (c client) applied(t *testing.T, config, root string) string {
	t.Helper()
	if text := read(t, filepath.Join(root, "etc/motd")); text != "served by glowplug\n" {
		t.Errorf("/etc/motd: %q", text)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/motd")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("/etc/motd: %v %v", info, err)
	}
	if config == "arguments" {
		return "file; the arguments are for the stage kargs, which needs a boot loader"
	}
	if info, err := os.Stat(filepath.Join(root, "opt/tools")); err != nil || info.Mode().Perm() != 0o755 || !info.IsDir() {
		t.Errorf("/opt/tools: %v %v", info, err)
	}
	if text := read(t, filepath.Join(root, "opt/data/zeros")); text != zeros {
		t.Errorf("/opt/data/zeros: %q", text)
	}
	// What is not set is the default of a new directory, and stays in an existing one.
	for name, mode := range map[string]os.FileMode{"opt/data": 0o755, "etc/kept": 0o700} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", name, info, err, mode)
		}
	}
	if target, err := os.Readlink(filepath.Join(root, "etc/link")); err != nil || target != "/etc/motd" {
		t.Errorf("/etc/link: %q %v", target, err)
	}
	units := filepath.Join(root, "etc/systemd/system")
	if text := read(t, filepath.Join(units, "hello.service")); !strings.Contains(text, "ExecStart=/bin/true") {
		t.Errorf("hello.service: %q", text)
	}
	if text := read(t, filepath.Join(units, "hello.service.d/10-more.conf")); !strings.Contains(text, "Nice=5") {
		t.Errorf("10-more.conf: %q", text)
	}
	preset, err := filepath.Glob(filepath.Join(root, "etc/systemd/system-preset/*ignition.preset"))
	if err != nil || len(preset) != 1 || !strings.Contains(read(t, preset[0]), "enable hello.service") {
		t.Errorf("hello.service is not enabled: %v %v", preset, err)
	}
	return "files, directories, link, unit, drop-in, preset"
}
