package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestServersShareCredentials: several servers on one store share one CA and one set of
// tokens. A server with a CA of its own says so, and what to do.
func TestServersShareCredentials(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	url := "nats://127.0.0.1:" + nats.port
	pki := filepath.Join(t.TempDir(), "pki")
	one := start(t, "--nats-url", url, "--pki-dir", pki)
	two := start(t, "--nats-url", url, "--pki-dir", pki)

	// kubectl with the kubeconfig of one server at the address of another one.
	ask := func(kubeconfig string, at *server) error {
		out, err := exec.Command(kubectlPath(t), "--kubeconfig", kubeconfig, "--server", "https://127.0.0.1:"+at.tls,
			"get", "bmh").CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	}
	for _, at := range []*server{one, two} {
		for _, of := range []*server{one, two} {
			testkit.Until(t, "the kubeconfig of each server is valid at each", func() bool { return ask(of.kubeconfig(), at) == nil })
		}
	}
	watch := watchAs(t, adminToken(t, one), two.url("/api/v1/namespaces?watch=true"))
	former := filepath.Join(t.TempDir(), "former.kubeconfig")
	if err := os.Rename(one.kubeconfig(), former); err != nil {
		t.Fatal(err)
	}
	one.terminate()
	one.restart()
	for _, at := range []*server{one, two} {
		testkit.Until(t, "the token that one server has replaced is refused by all", func() bool { return ask(former, at) != nil })
		testkit.Until(t, "the new token is valid at all", func() bool { return ask(one.kubeconfig(), at) == nil })
	}
	awaitEnd(t, watch)

	three := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t),
		tls: freePort(t), args: []string{"--nats-url", url}}
	three.launch()
	testkit.Until(t, "the server with another CA says so", func() bool {
		return strings.Contains(three.log.String(), "is not that of the other servers of this store")
	})
	if a := get(t, three.url("/readyz/credentials")); a.status != http.StatusInternalServerError {
		t.Errorf("/readyz/credentials of the server with another CA: %d %s", a.status, a.body)
	}
	testkit.Until(t, "it answers machines", func() bool { return get(t, three.url("/readyz/boot")).status == http.StatusOK })
	three.terminate()
	for _, name := range []string{"ca.crt", "ca.key"} {
		content, err := os.ReadFile(filepath.Join(pki, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(three.dir, "pki", name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	three.restart() // and is ready
	testkit.Until(t, "the server with the copied CA accepts the others' tokens", func() bool {
		return ask(two.kubeconfig(), three) == nil && ask(three.kubeconfig(), two) == nil
	})

	// A server that no longer runs: its token is refused once the store has forgotten it.
	last := filepath.Join(t.TempDir(), "last.kubeconfig")
	three.terminate()
	if err := os.Rename(three.kubeconfig(), last); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "store", "forget-credentials", "--data-dir", three.dir, "--nats-url", url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testkit.Until(t, "the token of a server that no longer runs is refused", func() bool { return ask(last, one) != nil })
	testkit.Until(t, "the others are valid", func() bool { return ask(two.kubeconfig(), one) == nil })
}

// TestOwnCertificateIsServed: HTTPS has the certificate of --tls-cert-file, and a renewed one
// without a restart. admin.kubeconfig stays valid on this machine.
func TestOwnCertificateIsServed(t *testing.T) {
	needs(t)
	dir := t.TempDir()
	makeCertificates(t, dir)
	s := start(t, "--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-private-key-file",
		filepath.Join(dir, "server.key"))
	served := func() *x509.Certificate {
		t.Helper()
		conn, err := tls.Dial("tcp", "127.0.0.1:"+s.tls, &tls.Config{ServerName: "boot.example", InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	first := served()
	if first.Subject.CommonName != "server" {
		t.Errorf("the certificate is that of %s", first.Subject)
	}
	makeCertificates(t, dir)
	testkit.Until(t, "the renewed certificate is served", func() bool { return !served().Equal(first) })
	if out, err := exec.Command(kubectlPath(t), "--kubeconfig", s.kubeconfig(), "get", "bmh").CombinedOutput(); err != nil {
		t.Errorf("kubectl: %v\n%s", err, out)
	}
}
