package cli

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"glowplug/internal/credentials/certtest"
	"glowplug/internal/testkit"
)

// withoutDesktop has no browser opened.
func withoutDesktop(t *testing.T) {
	t.Helper()
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
}

// consoleLink is what the command prints with a kubeconfig.
var consoleLink = regexp.MustCompile(`^(https://127\.0\.0\.1:\d+/console/sign-in)#([A-Z2-7]{26})\n$`)

// TestConsoleLink: the link signs a browser in once, and the command says so, and where the CA is.
func TestConsoleLink(t *testing.T) {
	withoutDesktop(t)
	dir := t.TempDir()
	runServer(t, "--data-dir", dir, "--listen-tls", freeAddress(t))
	code, out, errs := run("console", "--kubeconfig", filepath.Join(dir, "admin.kubeconfig"))
	link := consoleLink.FindStringSubmatch(out)
	if code != 0 || link == nil {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	if want := "this link signs in once, within 60 seconds:\nthe browser has to trust the CA of the server: " +
		filepath.Join(dir, "pki", "ca.crt") + "\n"; errs != want {
		t.Errorf("%q, want %q", errs, want)
	}
	browser := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	for _, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		answer, err := browser.PostForm(link[1], url.Values{"code": {link[2]}})
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s, want %d", answer.Status, want)
		}
	}

	// A copy of the kubeconfig elsewhere has no folder of a server beside it.
	content, err := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	copied := writeFile(t, filepath.Join(t.TempDir(), "boot.kubeconfig"), content)
	if _, _, errs := run("console", "--kubeconfig", copied); !strings.HasSuffix(errs,
		"the browser has to trust the CA of the server: ca.crt in the folder pki of the server's data directory\n") {
		t.Errorf("%s", errs)
	}
}

// TestConsoleOpensABrowser: where there is a desktop, unless --no-open.
func TestConsoleOpensABrowser(t *testing.T) {
	admin := startServer(t)
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	script := writeFile(t, filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\necho \"$*\" >"+opened+".part && mv "+opened+".part "+
		opened+"\n"))
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	if code, out, errs := run("console", "--server", admin, "--no-open"); code != 0 || out != admin+"/console/\n" || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, errs := run("console", "--server", admin+"/"); code != 0 || out != admin+"/console/\n" || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	testkit.Until(t, "the browser is opened", func() bool { _, err := os.Stat(opened); return err == nil })
	if content, _ := os.ReadFile(opened); string(content) != admin+"/console/\n" {
		t.Errorf("opened %s", content)
	}
}

// TestConsoleWithACertificate: no link is needed, and the command says what the browser needs.
func TestConsoleWithACertificate(t *testing.T) {
	withoutDesktop(t)
	ca, caKey := certtest.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}}, nil, nil)
	cert, key := certtest.Sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "jo", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	pemOf := func(kind string, content []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), pemOf("CERTIFICATE", ca.Raw))
	runServer(t, "--data-dir", dir, "--listen-tls", freeAddress(t), "--client-ca-file", file)
	path := filepath.Join(dir, "admin.kubeconfig")
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range config.AuthInfos {
		who.Token = ""
		who.ClientCertificateData, who.ClientKeyData = pemOf("CERTIFICATE", cert.Raw), pemOf("PRIVATE KEY", secret)
	}
	jo := filepath.Join(dir, "jo.kubeconfig")
	if err := clientcmd.WriteToFile(*config, jo); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("console", "--kubeconfig", jo)
	if code != 0 || !regexp.MustCompile(`^https://127\.0\.0\.1:\d+/console/\n$`).MatchString(out) ||
		!strings.Contains(errs, "openssl pkcs12 -export") || !strings.Contains(errs, "pki/ca.crt\n") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// TestConsoleOverPlainHTTP: no link is made there, and the command says what to do.
func TestConsoleOverPlainHTTP(t *testing.T) {
	withoutDesktop(t)
	dir := t.TempDir()
	runServer(t, "--data-dir", dir)
	const want = "error: the server answered 403 Forbidden: a link is made over HTTPS alone: name the server's HTTPS " +
		"address\nhint: start the server with --listen-tls, or name its admin listener: --server http://127.0.0.1:8081\n"
	if code, out, errs := run("console", "--kubeconfig", filepath.Join(dir, "admin.kubeconfig")); code == 0 || out != "" ||
		errs != want {
		t.Errorf("%d %s\n%s, want\n%s", code, out, errs, want)
	}
}

// TestConsoleThatIsNotThere: the command says why there is no link, and what to do.
func TestConsoleThatIsNotThere(t *testing.T) {
	withoutDesktop(t)
	off, admin := t.TempDir(), freeAddress(t)
	runServer(t, "--data-dir", off, "--listen-tls", freeAddress(t), "--console=false", "--admin-listen", admin)
	adminOf := func(dir string) string { return filepath.Join(dir, "admin.kubeconfig") }
	code, viewer, errs := run("token", "create", "viewer", "--role", "view", "-o", "kubeconfig", "--kubeconfig", adminOf(off))
	if code != 0 {
		t.Fatal(errs)
	}
	viewers := writeFile(t, filepath.Join(off, "viewer.kubeconfig"), []byte(viewer))
	config, err := clientcmd.LoadFromFile(adminOf(off))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range config.AuthInfos {
		who.Impersonate = "jo"
	}
	asJo := filepath.Join(off, "jo.kubeconfig")
	if err := clientcmd.WriteToFile(*config, asJo); err != nil {
		t.Fatal(err)
	}
	const none = "error: the server has no web console\nhint: it runs with --console=false, or its release is older " +
		"than the console\n"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an administrator":   {[]string{"--kubeconfig", adminOf(off)}, none},
		"a viewer":           {[]string{"--kubeconfig", viewers}, none},
		"the admin listener": {[]string{"--server", "http://" + admin}, none},
		"a socket": {[]string{"--server", "unix:/run/admin.sock"}, "error: --server: no browser opens a Unix socket\nhint: " +
			"name a listener that it can open: --kubeconfig DATA-DIR/admin.kubeconfig, or an admin listener such as " +
			"http://127.0.0.1:8081\n"},
		"another user": {[]string{"--kubeconfig", asJo}, "error: the kubeconfig acts as jo, and the console does not act as " +
			"another user\nhint: make a token for that user, as with glowplug token create\n"},
	} {
		if code, out, errs := run(append([]string{"console"}, c.args...)...); code == 0 || out != "" || errs != c.want {
			t.Errorf("%s: %d %s\n%s, want\n%s", name, code, out, errs, c.want)
		}
	}
}
