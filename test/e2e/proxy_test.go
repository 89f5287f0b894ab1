package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"glowplug/internal/testkit"
)

// proxy runs nginx on this machine before an address, and returns its URL.
func proxy(t *testing.T, target string, location ...string) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`
daemon off; pid %[1]s/pid; error_log %[1]s/error.log; events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen 127.0.0.1:%[2]s;
    location / { proxy_pass http://%[3]s; %[4]s }
  }
}`, dir, port, target, strings.Join(location, " ")))
	nginx := exec.Command("nginx", "-c", filepath.Join(dir, "nginx.conf"), "-p", dir)
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nginx.Process.Kill(); _ = nginx.Wait() })
	awaitListener(t, "127.0.0.1:"+port)
	return "http://127.0.0.1:" + port
}

// awaitListener waits until a server listens.
func awaitListener(t *testing.T, address string) {
	t.Helper()
	testkit.Until(t, "somebody listens at "+address, func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// checkNoAdmin asks for what only an admin gets, and for another machine's config.
func checkNoAdmin(t *testing.T, through string, header ...string) {
	t.Helper()
	a := get(t, through+"/api/v1/namespaces/rack/baremetalhosts", header...)
	if a.status != 401 || !strings.Contains(a.body, `"Status"`) {
		t.Errorf("the API with %v: %d %s", header, a.status, a.body)
	}
	if a := get(t, through+"/api/v1/ignition?mac=52:54:00:00:00:01", header...); a.status != 403 && a.status != 401 {
		t.Errorf("a claim with %v: %d %s", header, a.status, a.body)
	}
}

// TestReverseProxy: a proxy on the same machine that says who it speaks for. Nobody
// who comes through it is an admin, and what it says is believed alone.
func TestReverseProxy(t *testing.T) {
	needs(t, "nginx")
	s := start(t, "--trusted-proxies", "127.0.0.2/32")
	s.kubectl(rackObjects, "apply", "-f", "-")
	through := proxy(t, "127.0.0.1:"+s.plain, "proxy_bind 127.0.0.2;",
		"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	for _, header := range [][]string{nil, {"X-Forwarded-For", "127.0.0.1"}, {"Host", "localhost"}} {
		checkNoAdmin(t, through, header...)
	}
	if a := get(t, through+"/api/v1/kickstart", "X-Forwarded-For", "192.0.2.12"); a.status != 404 {
		t.Errorf("an X-Forwarded-For entry from before the proxy was believed: %d %s", a.status, a.body)
	}
}

// TestProxyOnTheServersMachineMakesNobodyAdmin: nginx adds no header that tells it
// from a program of this machine, in HTTP/1.0 or 1.1, before the listener for
// machines and, by mistake, before the admin listener.
func TestProxyOnTheServersMachineMakesNobodyAdmin(t *testing.T) {
	needs(t, "nginx", "root")
	s := start(t)
	s.kubectl(rackObjects, "apply", "-f", "-")
	for target, port := range map[string]string{"machines": s.plain, "admin": s.adminPort} {
		for _, version := range []string{"1.0", "1.1"} {
			t.Run(target+", HTTP/"+version, func(t *testing.T) {
				through := proxy(t, "127.0.0.1:"+port, "proxy_http_version "+version+";",
					"proxy_set_header Host localhost;", `proxy_set_header Connection "";`)
				checkNoAdmin(t, through)
			})
		}
	}
}

// stranger is a user that no other program of this machine runs as.
const stranger = 61234

// asStranger makes a command that another user than the server's runs.
func asStranger(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	return cmd
}

// TestTCPForwardOfAnotherUserMakesNobodyAdmin: what ssh -L, kubectl port-forward or
// socat pass on has no header at all.
func TestTCPForwardOfAnotherUserMakesNobodyAdmin(t *testing.T) {
	needs(t, "socat", "root")
	s := start(t)
	s.kubectl(rackObjects, "apply", "-f", "-")
	for target, port := range map[string]string{"machines": s.plain, "admin": s.adminPort} {
		t.Run(target, func(t *testing.T) {
			own := freePort(t)
			forward := asStranger("socat", "TCP-LISTEN:"+own+",bind=127.0.0.1,fork,reuseaddr", "TCP:127.0.0.1:"+port)
			if err := forward.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = forward.Process.Kill(); _ = forward.Wait() })
			awaitListener(t, "127.0.0.1:"+own)
			checkNoAdmin(t, "http://127.0.0.1:"+own)
		})
	}
}

// TestAdminListenerServesItsOwnUserOnly: a local user is refused by TCP and by the
// Unix socket, with a sentence that says who is served; the server's user is served.
func TestAdminListenerServesItsOwnUserOnly(t *testing.T) {
	needs(t, "curl", "root")
	dir, err := os.MkdirTemp("", "admin") // a short path that others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "admin.sock")
	tcp, unix := start(t), start(t, "--admin-listen", "unix:"+socket)
	const path = "/api/v1/namespaces"
	for name, c := range map[string]struct {
		server *server
		args   []string
	}{
		"TCP":         {tcp, []string{tcp.admin(path)}},
		"Unix socket": {unix, []string{"--unix-socket", socket, "http://localhost" + path}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"-sS"}, c.args...)
			out, err := exec.Command("curl", args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"NamespaceList"`) {
				t.Errorf("the server's own user: %v %s", err, out)
			}
			if name == "Unix socket" {
				if out, err := asStranger("curl", args...).CombinedOutput(); err == nil {
					t.Errorf("another user may connect to the socket: %s", out)
				}
				if err := os.Chmod(socket, 0o666); err != nil { // it is asked who connects all the same
					t.Fatal(err)
				}
			}
			out, err = asStranger("curl", args...).CombinedOutput()
			refused := strings.Contains(string(out), `"code": 401`) && strings.Contains(string(out), fmt.Sprintf("user %d",
				stranger))
			if err != nil || !refused {
				t.Errorf("another user: %v %s", err, out)
			}
			testkit.Until(t, "the log has a line of it", func() bool {
				return strings.Contains(c.server.log.String(), `msg="a credential was refused"`)
			})
		})
	}
	unix.kill()
	unix.restart() // the socket that was left is no obstacle
	if out, err := exec.Command("curl", "-sS", "--unix-socket", socket, "http://localhost"+
		path).CombinedOutput(); err != nil {
		t.Errorf("after kill -9 and a restart: %v %s", err, out)
	}
}

// TestLocalCallersAreNotBelieved: a program on the server's machine that asks the
// listeners for machines is one more machine.
func TestLocalCallersAreNotBelieved(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(rackObjects, "apply", "-f", "-")
	checkNoAdmin(t, s.url(""))
	if a := get(t, s.admin("/api/v1/ignition?mac=52:54:00:00:00:01")); a.status != 200 {
		t.Errorf("the admin listener: %d %s", a.status, a.body)
	}
}

// TestBrowser: a page of another site open on the admin's own machine gets nothing.
func TestBrowser(t *testing.T) {
	needs(t)
	s := start(t)
	path := s.admin("/api/v1/namespaces/default/baremetalhosts")
	if a := get(t, path); a.status != 200 {
		t.Fatalf("a program of this machine: %d %s", a.status, a.body)
	}
	for name, header := range map[string][]string{
		"DNS rebinding":       {"Host", "evil.example"},
		"a page of elsewhere": {"Origin", "http://evil.example"},
		"a page of this host": {"Origin", s.admin("")},
		"cross-site fetch":    {"Sec-Fetch-Site", "cross-site"},
		"same-site fetch":     {"Sec-Fetch-Site", "same-site"},
		"Forwarded":           {"Forwarded", "for=127.0.0.1"},
		"X-Forwarded-Host":    {"X-Forwarded-Host", "localhost"},
		"Via":                 {"Via", "1.1 proxy"},
		"an empty forwarding": {"X-Forwarded-For", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if a := get(t, path, header...); a.status != 401 || !strings.Contains(a.body, `"kind":"Status"`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	for _, site := range []string{"none", "same-origin"} {
		if a := get(t, path, "Sec-Fetch-Site", site); a.status != 200 {
			t.Errorf("Sec-Fetch-Site %s: %d", site, a.status)
		}
	}
}

// TestPagesOfOtherSitesChangeNothing: a page in the browser of an operator, which has a client certificate, or of a
// machine cannot change anything at the listeners for other machines. A bearer token stands for the certificate,
// which a browser sends by itself. A request without Content-Type, which needs no preflight, would be JSON.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	s := start(t)
	s.kubectl(provisioningObjects, "apply", "-f", "-")
	const namespaces, complete = "/api/v1/namespaces", "/api/v1/boot-complete?mac=52-54-00-00-00-01"
	send := func(path string, header ...string) (status int, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(path), strings.NewReader(
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"evil"}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+adminToken(t, s))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(content)
	}
	for _, path := range []string{namespaces, complete} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
			status, body := send(path, header...)
			if status != 403 || !strings.Contains(body, "a page of another site") {
				t.Errorf("%s with %s: %d %s", path, header, status, body)
			}
		}
	}
	state := s.kubectl("", "get", "bmh", "one", "-n", "rack", "-o", "jsonpath={.status.state}")
	if state == "Provisioned" {
		t.Error("a page has reported boot-complete")
	}
	if status, body := send(namespaces); status != 201 {
		t.Errorf("a program that sends no such header: %d %s", status, body)
	}
}
