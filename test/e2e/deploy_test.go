package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"glowplug/test/launch"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// TestSystemdUnit: systemd takes the units without a complaint, and the documentation that the one
// of the archives names is what the commands in it install.
func TestSystemdUnit(t *testing.T) {
	needs(t, "systemd-analyze")
	unit := verifyUnit(t, "deploy/systemd/glowplug.service", "/usr/local/bin/glowplug")
	verifyUnit(t, "deploy/packages/glowplug.service", "/usr/bin/glowplug")
	documentation := regexp.MustCompile(`(?m)^Documentation=file://(.*)/(.*)$`).FindStringSubmatch(unit)
	if documentation == nil || !strings.Contains(unit, "install -Dm644 -t "+documentation[1]+" "+documentation[2]) {
		t.Errorf("the commands at the top do not install %q", documentation)
	}
	if _, err := os.Stat(filepath.Join(root, documentation[2])); err != nil {
		t.Error(err)
	}
}

// verifyUnit has systemd verify a unit, with the program of the tests in the place of its own.
func verifyUnit(t *testing.T, file, installed string) (unit string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	unit = strings.ReplaceAll(string(content), installed, program)
	path := filepath.Join(t.TempDir(), "glowplug.service")
	write(t, path, unit)
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: systemd-analyze verify: %v\n%s", file, err, out)
	}
	return unit
}

// TestSystemdIsTold: systemd knows the server as started once it answers machines, and knows
// when it stops.
func TestSystemdIsTold(t *testing.T) {
	needs(t)
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	told := func(timeout time.Duration) string {
		buffer := make([]byte, 4096)
		_ = conn.SetReadDeadline(time.Now().Add(timeout))
		n, err := conn.Read(buffer)
		if err != nil {
			return err.Error()
		}
		return string(buffer[:n])
	}
	nats := newNATS(t)
	s := &server{t: t, host: "127.0.0.1", dir: t.TempDir() + "/data", plain: freePort(t), tls: freePort(t),
		args: []string{"--nats-url", "nats://127.0.0.1:" + nats.port}}
	s.launch()
	if got := told(30 * time.Second); !strings.HasPrefix(got, "STATUS=Waiting for the store: NATS at nats://127.0.0.1:") {
		t.Errorf("at the start: %q", got)
	}
	if got := told(time.Second); !strings.Contains(got, "timeout") {
		t.Errorf("while NATS is away: %q", got)
	}
	nats.start()
	if got := told(30 * time.Second); got != "READY=1\nSTATUS=Answering machines" {
		t.Errorf("with NATS: %q", got)
	}
	if a := get(t, s.url("/readyz/boot")); a.status != http.StatusOK {
		t.Errorf("when systemd was told: %d %s", a.status, a.body)
	}
	s.terminate()
	if got := told(30 * time.Second); got != "STOPPING=1" {
		t.Errorf("at the stop: %q", got)
	}
}

// image builds the container image and returns the folder of its files and its environment.
// Without buildah it does what the Containerfile says.
func image(t *testing.T) (rootfs string, env []string) {
	t.Helper()
	containerfile := filepath.Join(root, "deploy/container/Containerfile")
	content, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(string(content), -1) {
		env = append(env, line[1])
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		rootfs = t.TempDir()
		for _, line := range regexp.MustCompile(`(?m)^COPY (\S+) (\S+)$`).FindAllStringSubmatch(string(content), -1) {
			copyFile(t, filepath.Join(filepath.Dir(program), line[1]), filepath.Join(rootfs, line[2]))
		}
		return rootfs, env
	}
	store := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("buildah", append([]string{"--storage-driver", "vfs", "--root", filepath.Join(store, "root"),
			"--runroot", filepath.Join(store, "run")}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("buildah %v: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	buildah("build", "--quiet", "--isolation", "chroot", "-f", containerfile, "-t", "glowplug", filepath.Dir(program))
	container := buildah("from", "--pull-never", "glowplug")
	rootfs = buildah("mount", container)
	t.Cleanup(func() { buildah("umount", container) })
	return rootfs, env
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// manifest reads the StatefulSet for Kubernetes.
func manifest(t *testing.T) (set appsv1.StatefulSet) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes/base/statefulset.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(content, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestContainer: the image runs as the manifests for Kubernetes say: as its user, without any
// other program, with its config file, with a certificate for the name of the Service. `glowplug kubeconfig` in the
// container prints a kubeconfig that is valid there.
func TestContainer(t *testing.T) {
	needs(t, "root")
	rootfs, env := image(t)
	set := manifest(t)
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	for _, e := range container.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	user := int(*pod.SecurityContext.RunAsUser)
	for _, volume := range container.VolumeMounts {
		at := filepath.Join(rootfs, volume.MountPath)
		if err := os.MkdirAll(at, 0o770); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at, 0, user); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, os.ModeSetgid|0o770); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, filepath.Join(root, "deploy/kubernetes/overlays/single/glowplug.yaml"),
		filepath.Join(rootfs, "etc/glowplug/glowplug.yaml"))
	proc := filepath.Join(rootfs, "proc") // which every container has
	if err := os.MkdirAll(proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(proc, syscall.MNT_DETACH) })
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/glowplug", args...)
		cmd.Dir, cmd.Env = "/", env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: rootfs, Credential: &syscall.Credential{
			Uid: uint32(user), Gid: 0, Groups: []uint32{uint32(user)}}}
		return cmd
	}
	plain, secure := freePort(t), freePort(t)
	s := &server{t: t, host: "127.0.0.1", plain: plain, log: &launch.Output{}}
	s.cmd = inside(append(container.Args, "--listen=127.0.0.1:"+plain, "--listen-tls=127.0.0.1:"+secure,
		"--iscsi-listen=127.0.0.1:"+freePort(t))...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if out, err := inside("kubeconfig").CombinedOutput(); err == nil || !strings.Contains(string(out), "hint: ") {
		t.Errorf("kubeconfig before the first start: %v\n%s", err, out)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.waitReady()
	if out, err := inside("probe", "http://127.0.0.1:"+plain+"/readyz/boot").CombinedOutput(); err != nil {
		t.Errorf("probe: %v\n%s", err, out)
	}
	if strings.Contains(s.log.String(), "level=WARN") || strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("the server warns:\n%s", s.log)
	}
	out, err := inside("kubeconfig", "--server", "https://glowplug.glowplug.svc:8443").Output()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(out)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	client := http.Client{Transport: &http.Transport{
		DialTLS: func(string, string) (net.Conn, error) {
			return tls.Dial("tcp", "127.0.0.1:"+secure, &tls.Config{RootCAs: roots, ServerName: "glowplug.glowplug.svc"})
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/baremetalhosts", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+config.BearerToken)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
