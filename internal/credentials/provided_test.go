package credentials

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glowplug/internal/credentials/certtest"
)

// provide writes a certificate and its key for a host name.
func provide(t *testing.T, dir, host string, ca *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	cert, own := certtest.Sign(t, &x509.Certificate{
		DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, key)
	raw, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"tls.crt": certPEM(cert.Raw), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOwnCertificate: clients that ask for a name of the operator's certificate get it, also
// after it was renewed; admin.kubeconfig, which names 127.0.0.1, stays valid.
func TestOwnCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := certtest.Sign(t, &x509.Certificate{}, nil, nil)
	provide(t, dir, "boot.example.org", ca, caKey)
	opts := Options{DataDir: t.TempDir(), CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key",
		Names: []string{"tls-san.example.org"}}
	c := ensure(t, opts)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", c.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			_ = conn.(*tls.Conn).Handshake()
		}
	}()
	serial := func(name string, roots *x509.CertPool) string {
		t.Helper()
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(),
			&tls.Config{ServerName: name, RootCAs: roots})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			return ""
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	others := x509.NewCertPool()
	others.AddCert(ca)
	first := serial("boot.example.org", others)
	serial("127.0.0.1", c.ClientCAs())
	serial("tls-san.example.org", c.ClientCAs())

	provide(t, dir, "boot.example.org", ca, caKey)
	go c.FollowProvided(t.Context())
	for deadline := time.Now().Add(30 * time.Second); serial("boot.example.org", others) == first; {
		if time.Now().After(deadline) {
			t.Fatal("the renewed certificate is not served")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestOwnCertificateThatCannotBeUsed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	ca, caKey := certtest.Sign(t, &x509.Certificate{}, nil, nil)
	provide(t, dir, "boot.example.org", ca, caKey)
	provide(t, other, "boot.example.org", ca, caKey)
	if err := os.Chmod(dir+"/tls.key", 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ cert, key, want string }{
		{other + "/tls.crt", dir + "/tls.key", "anybody may write it"},
		{dir + "/missing", other + "/tls.key", "missing"},
		{dir + "/tls.crt", other + "/tls.key", "does not match"},
		{other + "/tls.key", other + "/tls.key", "cannot be used"},
	} {
		_, err := Ensure(Options{DataDir: t.TempDir(), Server: "https://x", CertFile: test.cert, KeyFile: test.key})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// TestAuthorities: clients trust the own CA, and those in the file of the operator's certificate.
func TestAuthorities(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := certtest.Sign(t, &x509.Certificate{}, nil, nil)
	provide(t, dir, "boot.example.org", ca, caKey)
	chain, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		chain []byte
		want  int
	}{"without its CA": {chain, 1}, "with its CA": {append(chain, certPEM(ca.Raw)...), 2}} {
		if err := os.WriteFile(filepath.Join(dir, "tls.crt"), c.chain, 0o600); err != nil {
			t.Fatal(err)
		}
		creds := ensure(t, Options{DataDir: t.TempDir(), CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key"})
		all := creds.Authorities()
		want := []string{string(creds.CAPEM()), string(certPEM(ca.Raw))}[:c.want]
		var got []string
		for _, pem := range all {
			got = append(got, string(pem))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s", name, all)
		}
	}
}
