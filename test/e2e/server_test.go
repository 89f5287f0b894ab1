package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"glowplug/internal/store/natsd/natstest"
	"glowplug/test/launch"
)

// server is a running glowplug.
type server struct {
	t          *testing.T
	dir        string   // --data-dir
	host       string   // address it listens on
	plain, tls string   // ports
	adminPort  string   // of the admin listener, on loopback
	prefix     []string // runs it in another network namespace
	wrap       []string // runs it otherwise, a control group say
	args       []string
	cmd        *exec.Cmd
	log        *launch.Output
}

// start runs the program on loopback with further flags and waits until it is ready.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1",
		plain: freePort(t), tls: freePort(t), args: args}
	s.launch()
	s.waitReady()
	return s
}

// launch starts the process; it is stopped with the test.
func (s *server) launch() {
	s.t.Helper()
	s.log = &launch.Output{}
	if s.adminPort == "" {
		s.adminPort = freePort(s.t)
	}
	argv := append(slices.Concat(s.prefix, s.wrap), program, "serve", "--data-dir", s.dir,
		"--listen", net.JoinHostPort(s.listenHost(), s.plain), "--listen-tls", net.JoinHostPort(s.listenHost(), s.tls),
		"--admin-listen", net.JoinHostPort("127.0.0.1", s.adminPort))
	argv = append(argv, s.args...)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, log := s.cmd, s.log
	s.t.Cleanup(func() {
		s.plantAdminToken()
		s.searchPlanted(cmd, log)
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if s.t.Failed() {
			s.t.Logf("server log:\n%s", launch.Tail(s.log.String(), 6000))
		}
	})
}

// listenHost is the wildcard where the server is reached from other namespaces.
func (s *server) listenHost() string {
	if s.prefix != nil {
		return ""
	}
	return s.host
}

func (s *server) url(path string) string {
	return "http://" + net.JoinHostPort(s.host, s.plain) + path
}

// admin is a URL for callers that need no credential: the API, and machine endpoints
// that believe what is claimed.
func (s *server) admin(path string) string {
	return "http://" + net.JoinHostPort("127.0.0.1", s.adminPort) + path
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

func (s *server) waitReady() {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if s.probe() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("not ready after 30 s:\n%s", s.log)
}

func (s *server) probe() bool {
	if s.prefix != nil { // in another namespace: ask from there
		args := append(s.prefix[1:], "curl", "-sf", "-o", "/dev/null", s.url("/readyz"))
		return exec.Command(s.prefix[0], args...).Run() == nil
	}
	return launch.Answers(s.url("/readyz"))
}

// kill is kill -9; terminate is SIGTERM, and returns the exit code.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) terminate() int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.exits()
}

// exits waits until the server has stopped, and returns the exit code.
func (s *server) exits() int {
	s.t.Helper()
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		s.t.Fatal("the server did not stop within 30 s")
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *server) restart() {
	s.t.Helper()
	s.launch()
	s.waitReady()
}

// impactWarnings are the warnings of what a write changes for hosts, or that it makes an island, which many tests
// expect.
var impactWarnings = regexp.MustCompile(`(?m)^Warning: (impact on|the namespace \S+ is an island from now on).*\n`)

// kubectl runs kubectl without a credential and fails the test where it fails, or warns of anything
// but an impact.
func (s *server) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	out, errOut, err := s.tryKubectl(stdin, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	if errOut = impactWarnings.ReplaceAllString(errOut, ""); errOut != "" {
		s.t.Errorf("kubectl %s warns:\n%s", strings.Join(args, " "), errOut)
	}
	return out
}

func (s *server) tryKubectl(stdin string, args ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubectlPath(s.t), append([]string{"-s", s.admin("")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null", "HOME="+filepath.Dir(s.dir), "KUBE_EDITOR="+
		os.Getenv("E2E_EDITOR"))
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if err != nil {
		planted.check(s.t, "error of kubectl", strings.Join(args[:min(2, len(args))], " "), errOut.String())
	}
	if len(args) > 1 && args[0] == "create" && args[1] == "token" {
		planted.plant(out.String())
	}
	return out.String(), errOut.String(), err
}

var kubectlOnce = sync.OnceValues(func() (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	path := filepath.Join(filepath.Dir(program), "kubectl")
	return path, buildTool("./kubectl", path, "")
})

// kubectlPath is the machine's kubectl, or one built for the test.
func kubectlPath(t *testing.T) string {
	t.Helper()
	path, err := kubectlOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// buildTool builds a main package that test/tools pins.
func buildTool(pkg, output, ldflags string) error {
	cmd := exec.Command("go", "build", "-o", output, "-ldflags", ldflags, pkg)
	cmd.Dir = filepath.Join(root, "test", "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// answer is an HTTP answer, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, url string, header ...string) answer {
	t.Helper()
	return request(t, http.MethodGet, url, "", header...)
}

// request sends a body with headers given as name, value, name, value.
func request(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		planted.check(t, "body of an error", url, string(data))
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func freePort(t *testing.T) string { return strconv.Itoa(natstest.FreePort(t)) }
