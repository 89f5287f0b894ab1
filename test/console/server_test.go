package console

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"glowplug/internal/client"
	"glowplug/internal/manifest"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// users are those of --token-auth-file; the token of ann is ann-token. What they may do, a test says with roles.
var users = []string{"ann", "vic", "otto"}

// server is a running glowplug.
type server struct {
	t    *testing.T
	dir  string // --data-dir
	args []string
	// Origins of the three doors: that of machines, the admin listener, where everybody is local-admin, and HTTPS.
	plain, admin, secure string

	cmd *exec.Cmd
	log *launch.Output
}

// start runs the program on loopback with further flags until the test ends, and returns once it is ready.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	needs(t)
	plain, admin, secure := freeAddress(t), freeAddress(t), freeAddress(t)
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), plain: "http://" + plain, admin: "http://" + admin,
		secure: "https://" + secure}
	if out, err := exec.Command("cp", "-a", certificates, s.dir).CombinedOutput(); err != nil {
		t.Fatalf("copying the certificates: %v: %s", err, out)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	var lines strings.Builder
	for i, user := range users {
		fmt.Fprintf(&lines, "%s,%s,%d\n", tokenOf(user), user, i+1)
	}
	if err := os.WriteFile(tokens, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append([]string{"serve", "--data-dir", s.dir, "--listen", plain, "--admin-listen", admin,
		"--listen-tls", secure, "--token-auth-file", tokens}, args...)
	s.launch()
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(natstest.FreePort(t)))
}

// launch starts the process, which ends with the test, and waits until it is ready.
func (s *server) launch() {
	s.t.Helper()
	log := &launch.Output{}
	cmd := exec.Command(program, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GLOWPLUG_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.log = cmd, log
	s.t.Cleanup(func() {
		end(cmd)
		if s.t.Failed() {
			s.t.Logf("server log:\n%s", launch.Tail(log.String(), 2000))
		}
	})
	testkit.Within(s.t, 30*time.Second, "the server is ready", func() bool { return launch.Answers(s.plain + "/readyz") })
}

func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// kill is kill -9, and restart starts the server again, with the same ports and data.
func (s *server) kill() { end(s.cmd) }

func (s *server) restart() {
	s.t.Helper()
	s.kill()
	s.launch()
}

func tokenOf(user string) string { return user + "-token" }

// token is what a user signs in with: admin is that of admin.kubeconfig.
func (s *server) token(user string) string {
	s.t.Helper()
	return s.config(user).BearerToken
}

// config is how a user reaches the API.
func (s *server) config(user string) *rest.Config {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		s.t.Fatal(err)
	}
	if user != "admin" {
		config.BearerToken = tokenOf(user)
	}
	return config
}

// http sends requests with a user's credential, to paths of the secure origin.
func (s *server) http(user string) *http.Client {
	s.t.Helper()
	c, err := rest.HTTPClientFor(s.config(user))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.CloseIdleConnections)
	return c
}

// api is the client of the command line, for a user.
func (s *server) api(user string) *client.Client {
	s.t.Helper()
	c, err := client.New(s.config(user))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// apply writes the objects of YAML documents as the admin.
func (s *server) apply(text string) {
	s.t.Helper()
	admin := s.api("admin")
	for _, doc := range manifest.Split("objects", []byte(text)) {
		if doc.Err != nil {
			s.t.Fatalf("%s: %v", &doc, doc.Err)
		}
		if _, err := admin.Apply(s.t.Context(), &doc, "test", nil, nil); err != nil {
			s.t.Fatalf("applying %s %s: %v", doc.Kind, doc.Name, err)
		}
	}
}

// machine asks as a machine of an address does; the server needs --trusted-proxies 127.0.0.0/8 for that.
func (s *server) machine(method, address, path string) (status int, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.plain+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", address)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}
