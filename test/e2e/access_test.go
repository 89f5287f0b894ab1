package e2e

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/credentials/certtest"
	"glowplug/internal/testkit"
)

// TestNATSWithTLSAndPassword: a NATS server that wants a client certificate, a user
// and a password is reached by files alone, by serve and by store. None of them shows
// the password, and one that is exchanged is read again.
func TestNATSWithTLSAndPassword(t *testing.T) {
	needs(t)
	const password, next = "geheim-4711", "geheim-4712"
	dir := t.TempDir()
	makeCertificates(t, dir)
	write(t, filepath.Join(dir, "user"), "jo\n")
	write(t, filepath.Join(dir, "password"), password+"\n")
	nats := newNATS(t)
	configure := func(password string) {
		t.Helper()
		conf := filepath.Join(nats.dir, "nats.conf")
		write(t, conf, fmt.Sprintf(`listen: 127.0.0.1:%s
max_payload: 16MB
jetstream { store_dir: %q }
authorization { user: jo, password: %q }
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
`, nats.port, filepath.Join(nats.dir, "js"), password,
			filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"), filepath.Join(dir, "ca.crt")))
	}
	configure(password)
	nats.start()
	access := []string{"--nats-url", "tls://127.0.0.1:" + nats.port,
		"--nats-user-file", filepath.Join(dir, "user"), "--nats-password-file", filepath.Join(dir, "password"),
		"--nats-ca-file", filepath.Join(dir, "ca.crt")}
	certificate := []string{"--nats-cert-file", filepath.Join(dir, "client.crt"), "--nats-key-file", filepath.Join(dir,
		"client.key")}

	store := func(args ...string) (string, error) {
		out, err := exec.Command(program, append([]string{"store", "adopt", "--dry-run", "--data-dir", t.TempDir()},
			args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := store(append(access, certificate...)...); err != nil && !strings.Contains(out, "nothing to adopt") {
		t.Errorf("store: %v\n%s", err, out)
	}
	var refused sync.WaitGroup
	for name, args := range map[string][]string{
		"without a client certificate": access,
		"without the CA":               append(access[:6:6], certificate...),
		"without a user":               append(append(access[:2:2], access[6:]...), certificate...),
	} {
		refused.Go(func() {
			if out, err := store(args...); err == nil || !strings.Contains(out, "does not answer") || strings.Contains(out,
				password) {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	refused.Wait()

	s := start(t, slices.Concat(access, certificate)...)
	s.kubectl(configFor("a"), "apply", "-f", "-")
	nats.stop()
	configure(next)
	nats.start()
	testkit.Until(t, "the log says why NATS cannot be connected to", func() bool {
		return strings.Contains(s.log.String(), "authorization violation")
	})
	time.Sleep(2 * time.Second) // NATS refuses it several times
	write(t, filepath.Join(dir, "password"), next+"\n")
	s.waitReady()
	s.kubectl(configFor("b"), "apply", "-f", "-")

	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"log": s.log.String(), "metrics": get(t, s.url("/metrics")).body, "readyz": get(t, s.url("/readyz?verbose")).body,
		"arguments": string(cmdline),
	} {
		if text == "" || strings.Contains(text, "geheim") {
			t.Errorf("the %s show the password, or nothing:\n%s", name, text)
		}
	}
}

// makeCertificates writes a CA, and certificates of a server on loopback and of a
// client that it has signed, each with its key.
func makeCertificates(t *testing.T, dir string) {
	t.Helper()
	var parent *x509.Certificate
	var signer *ecdsa.PrivateKey
	for _, name := range []string{"ca", "server", "client"} {
		cert, key := certtest.Sign(t, &x509.Certificate{
			Subject:     pkix.Name{CommonName: name},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, parent, signer)
		if parent == nil {
			parent, signer = cert, key
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: cert.Raw})))
		secret := filepath.Join(dir, name+".key")
		write(t, secret, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
		if err := os.Chmod(secret, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientCAFileIsReadAgain: a CA that is taken out of --client-ca-file takes its
// clients with it, those with a watch included.
func TestClientCAFileIsReadAgain(t *testing.T) {
	needs(t)
	dir, other := t.TempDir(), t.TempDir()
	makeCertificates(t, dir)
	makeCertificates(t, other)
	file := filepath.Join(dir, "ca.crt")
	s := start(t, "--client-ca-file", file)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		Certificates: []tls.Certificate{cert}}}
	defer transport.CloseIdleConnections()
	send := func(query string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(s.host, s.tls)+
			"/api/v1/namespaces"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	s.kubectl("", "create", "clusterrolebinding", "viewer", "--clusterrole=view", "--user="+cert.Leaf.Subject.CommonName)
	watch := send("?watch=true")
	defer watch.Body.Close()
	if watch.StatusCode != http.StatusOK {
		t.Fatalf("a watch: %s", watch.Status)
	}
	foreign, err := os.ReadFile(filepath.Join(other, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(foreign))
	testkit.Until(t, "a certificate of the CA that was taken out is refused", func() bool {
		resp := send("")
		resp.Body.Close()
		return resp.StatusCode == http.StatusUnauthorized
	})
	awaitEnd(t, watch)
}

// watchAs opens a watch with a token, until the end of the test.
func watchAs(t *testing.T, token, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	watch, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watch.Body.Close() })
	if watch.StatusCode != http.StatusOK {
		t.Fatalf("a watch: %s", watch.Status)
	}
	return watch
}

// awaitEnd fails the test if a watch goes on.
func awaitEnd(t *testing.T, watch *http.Response) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, watch.Body) }()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Error("its watch goes on")
	}
}

// TestMetricsDoor: who may read /metrics, and where.
func TestMetricsDoor(t *testing.T) {
	needs(t)
	const metric = "glowplug_build_info"
	read := func(t *testing.T, url string, s *server, header ...string) answer {
		t.Helper()
		a := get(t, url, header...)
		if (a.status == http.StatusOK) != strings.Contains(a.body, metric) {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
		return a
	}
	t.Run("credential", func(t *testing.T) {
		s := start(t, "--metrics", "credential")
		bearer := "Bearer " + adminToken(t, s)
		a := read(t, s.url("/metrics"), s)
		if a.status != http.StatusUnauthorized || !strings.Contains(a.body, `"kind":"Status"`) {
			t.Errorf("without a credential: %d %s", a.status, a.body)
		}
		if a := read(t, s.url("/metrics"), s, "Authorization", "Bearer x"); a.status != http.StatusUnauthorized {
			t.Errorf("with a wrong one: %d", a.status)
		}
		if a := read(t, s.url("/metrics"), s, "Authorization", bearer); a.status != http.StatusOK {
			t.Errorf("with one, from this machine: %d %s", a.status, a.body)
		}
		if a := get(t, s.url("/readyz")); a.status != http.StatusOK {
			t.Errorf("readyz: %d", a.status)
		}
	})
	t.Run("credential, from another machine", func(t *testing.T) {
		address := otherAddress(t)
		s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: address, plain: freePort(t), tls: freePort(t),
			args: []string{"--metrics", "credential"}}
		s.launch()
		s.waitReady()
		bearer := "Bearer " + adminToken(t, s)
		if a := read(t, s.url("/metrics"), s, "Authorization", bearer); a.status != http.StatusUnauthorized ||
			!strings.Contains(a.body, "HTTPS") {
			t.Errorf("over plain HTTP: %d %s", a.status, a.body)
		}
		trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(s.host, s.tls)+
			"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		for header, want := range map[string]int{"": http.StatusUnauthorized, bearer: http.StatusOK} {
			req.Header.Set("Authorization", header)
			resp, err := trusting.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("over HTTPS, with %q: %d", strings.Repeat("x", len(header)), resp.StatusCode)
			}
		}
	})
	t.Run("a listener of its own", func(t *testing.T) {
		address := "127.0.0.1:" + freePort(t)
		s := start(t, "--metrics-listen", address)
		if a := read(t, "http://"+address+"/metrics", s); a.status != http.StatusOK {
			t.Errorf("there: %d %s", a.status, a.body)
		}
		if a := read(t, s.url("/metrics"), s); a.status != http.StatusNotFound {
			t.Errorf("elsewhere: %d %s", a.status, a.body)
		}
		for _, path := range []string{"/livez", "/readyz", "/readyz/boot", "/healthz"} {
			for _, url := range []string{"http://" + address + path, s.url(path)} {
				if a := get(t, url); a.status != http.StatusOK {
					t.Errorf("%s: %d", url, a.status)
				}
			}
		}
		for _, path := range []string{"/", "/api/v1", "/api/v1/ignition", "/boot.ipxe", "/version", "/metrics/"} {
			if a := get(t, "http://"+address+path); a.status != http.StatusNotFound {
				t.Errorf("%s on the listener of metrics: %d %s", path, a.status, a.body)
			}
		}
	})
}

// adminToken is the token of a server's kubeconfig.
func adminToken(t *testing.T, s *server) string {
	t.Helper()
	content, err := os.ReadFile(s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ *token: (\S+)$`).FindSubmatch(content)
	if found == nil {
		t.Fatal("no token in the kubeconfig")
	}
	return string(found[1])
}

// otherAddress is an address of this machine that is not loopback.
func otherAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}
