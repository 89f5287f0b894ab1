package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func ensure(t *testing.T, opts Options) *Credentials {
	t.Helper()
	if opts.Server == "" {
		opts.Server = "https://127.0.0.1:8443"
	}
	c, err := Ensure(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// files returns the content of every file in a data directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", path, info.Mode(), err)
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tokenIn(t *testing.T, c *Credentials) string {
	t.Helper()
	data, err := os.ReadFile(c.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	return k.Users[0].User.Token
}

func TestFirstAndLaterStarts(t *testing.T) {
	dir := t.TempDir()
	first := ensure(t, Options{DataDir: dir, Names: []string{"boot.example.org", "203.0.113.7"}})
	token := tokenIn(t, first)
	if !first.IsAdminToken(token) || first.IsAdminToken("") || first.IsAdminToken(token+"x") {
		t.Error("the token of admin.kubeconfig, and no other, is the admin's")
	}
	before := files(t, dir)
	for name, content := range before {
		if name != Kubeconfig && strings.Contains(content, token) {
			t.Errorf("%s holds the token in the clear", name)
		}
	}
	cert := first.current().Leaf
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "boot.example.org", "203.0.113.7"} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	second := ensure(t, Options{DataDir: dir, Names: []string{"203.0.113.7", "boot.example.org"}})
	if !second.IsAdminToken(token) {
		t.Error("a later start forgets the token")
	}
	for name, content := range files(t, dir) {
		if before[name] != content {
			t.Errorf("a later start changes %s", name)
		}
	}
}

func TestChanges(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(days int) func() time.Time {
		return func() time.Time { return now.AddDate(0, 0, days) }
	}
	tests := []struct {
		name    string
		change  func(dir string) error
		opts    Options
		changed []string
		token   bool // the old token still holds
	}{
		{name: "nothing", token: true},
		{name: "a clock a day behind", opts: Options{Now: at(-1)}, token: true},
		{name: "made while the clock was a year ahead", opts: Options{Now: at(-365)}, token: true},
		{name: "another name", opts: Options{Names: []string{"new.example.org"}}, changed: []string{"pki/server.crt",
			"pki/server.key"}, token: true},
		{name: "near the end", opts: Options{Now: at(330)}, changed: []string{"pki/server.crt", "pki/server.key"},
			token: true},
		{name: "another address", opts: Options{Server: "https://192.0.2.1:8443"}, changed: []string{Kubeconfig},
			token: true},
		{name: "the kubeconfig is gone", change: func(dir string) error { return os.Remove(dir + "/admin.kubeconfig") },
			changed: []string{Kubeconfig, "pki/admin-token.sha256"}},
		{name: "the CA is gone", change: func(dir string) error { return os.Remove(dir + "/pki/ca.crt") },
			changed: []string{"pki/ca.crt", "pki/ca.key", "pki/server.crt", "pki/server.key", Kubeconfig}, token: true},
		{name: "the CA is near its end", opts: Options{Now: at(9 * 365)},
			changed: []string{"pki/ca.crt", "pki/server.crt", "pki/server.key", Kubeconfig}, token: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			token := tokenIn(t, ensure(t, Options{DataDir: dir, Now: at(0)}))
			before := files(t, dir)
			if test.change != nil {
				if err := test.change(dir); err != nil {
					t.Fatal(err)
				}
			}
			test.opts.DataDir = dir
			if test.opts.Now == nil {
				test.opts.Now = at(0)
			}
			c := ensure(t, test.opts)
			if c.IsAdminToken(token) != test.token {
				t.Errorf("the old token holds: %v", !test.token)
			}
			if !c.IsAdminToken(tokenIn(t, c)) {
				t.Error("the token of admin.kubeconfig does not hold")
			}
			expected := map[string]bool{}
			for _, name := range test.changed {
				expected[name] = true
			}
			for name, content := range files(t, dir) {
				if (before[name] != content) != expected[name] {
					t.Errorf("%s changed: %v", name, !expected[name])
				}
			}
			opts := x509.VerifyOptions{Roots: c.ClientCAs(), CurrentTime: test.opts.Now()}
			if _, err := c.current().Leaf.Verify(opts); err != nil {
				t.Error(err)
			}
			opts.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			if _, err := c.current().Leaf.Verify(opts); err == nil {
				t.Error("the server's certificate passes for a client's")
			}
		})
	}
}

func TestErrorsNameFileAndRemedy(t *testing.T) {
	tests := []struct {
		name   string
		change func(dir string) error
		opts   Options
		want   []string
	}{
		{"damaged CA", func(dir string) error { return os.WriteFile(dir+"/pki/ca.crt", []byte("x"), 0o600) }, Options{},
			[]string{"ca.crt and its key", "are damaged", "certificate input", "restore them, or remove both"}},
		{"lost CA key", func(dir string) error { return os.Remove(dir + "/pki/ca.key") }, Options{}, []string{"ca.key is not",
			"put the key back"}},
		{"another CA key", func(dir string) error { return os.Rename(dir+"/pki/server.key", dir+"/pki/ca.key") }, Options{},
			[]string{"ca.key", "do not belong together", "does not match", "restore them"}},
		{"damaged hash", func(dir string) error { return os.WriteFile(dir+"/pki/admin-token.sha256", []byte("x"), 0o600) },
			Options{}, []string{"admin-token.sha256 is damaged"}},
		{"damaged kubeconfig", func(dir string) error { return os.WriteFile(dir+"/admin.kubeconfig", []byte("{"), 0o600) },
			Options{}, []string{"admin.kubeconfig is damaged"}},
		{"bad name", func(string) error { return nil }, Options{Names: []string{"a b"}}, []string{"--tls-san \"a b\""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ensure(t, Options{DataDir: dir})
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			test.opts.DataDir, test.opts.Server = dir, "https://127.0.0.1:8443"
			_, err := Ensure(test.opts)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

// TestMachinesWithoutAClockReachTheServer: the certificates of the CA and of the server are valid for a machine
// whose clock is at the build date of its image, or in 1970; those that an earlier release made become so at
// the next start, with the same key, while the former certificate of the CA verifies the new one. A CA from
// elsewhere keeps its dates.
func TestMachinesWithoutAClockReachTheServer(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	verify := func(c *Credentials, ca *x509.Certificate, at time.Time) error {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		_, err := c.current().Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
		return err
	}
	tests := []struct {
		name, authority string // the common name of a CA that is there already, "" for none
		renewed         bool
	}{
		{name: "a first start", renewed: true},
		{name: "the CA of an earlier release", authority: authorityName + "1", renewed: true},
		{name: "a CA from elsewhere", authority: "ACME Internal CA"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			var former *tls.Certificate
			if test.authority != "" {
				template := authorityTemplate(now)
				template.Subject.CommonName, template.NotBefore = test.authority, now.AddDate(0, 0, -2)
				if err := os.Mkdir(dir+"/pki", 0o700); err != nil {
					t.Fatal(err)
				}
				var err error
				if former, err = issue(template, nil, dir+"/pki/ca.crt", dir+"/pki/ca.key"); err != nil {
					t.Fatal(err)
				}
			}
			c := ensure(t, Options{DataDir: dir, Now: clock})
			for _, at := range []time.Time{time.Unix(0, 0), now.AddDate(0, -3, 0), now.AddDate(0, 0, -7), now} {
				if err := verify(c, c.authority.Load().Leaf, at); (err == nil) != (test.renewed || at.Equal(now)) {
					t.Errorf("clock at %v: %v", at, err)
				}
			}
			if former != nil {
				if err := verify(c, former.Leaf, now); err != nil {
					t.Errorf("a client with the former certificate of the CA: %v", err)
				}
			}
			settled := files(t, dir)
			ensure(t, Options{DataDir: dir, Now: clock})
			for file, content := range files(t, dir) {
				if settled[file] != content {
					t.Errorf("the next start changes %s again", file)
				}
			}
		})
	}
}

func TestRenewedWhileServing(t *testing.T) {
	now := time.Now()
	c := ensure(t, Options{DataDir: t.TempDir(), Now: func() time.Time { return now }})
	before := c.current().Leaf
	now = now.AddDate(0, 0, 330)
	after := c.current().Leaf
	if !after.NotAfter.After(before.NotAfter) {
		t.Errorf("still the certificate that ends %v", before.NotAfter)
	}
}

// TestCertificatesFromTheFuture: a server whose clock was ahead when it first started
// is reached by TLS once the clock is right: by its next start, and while it runs.
// What the CA has signed stays good, and so does the CA in the hands of clients when
// the clock goes the other way.
func TestCertificatesFromTheFuture(t *testing.T) {
	right := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	trusted := func(t *testing.T, c *Credentials, kubeconfigOf string, at time.Time) error {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(kubeconfigOf, Kubeconfig))
		if err != nil {
			t.Fatal(err)
		}
		var k kubeconfig
		if err := yaml.Unmarshal(data, &k); err != nil {
			t.Fatal(err)
		}
		pem, err := base64.StdEncoding.DecodeString(k.Clusters[0].Cluster.CA)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		_, err = c.current().Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
		return err
	}
	for name, wrong := range map[string]time.Time{
		"years ahead": right.AddDate(6, 0, 0), "days ahead": right.AddDate(0, 0, 3), "since 1970": time.Unix(1000, 0),
	} {
		t.Run(name, func(t *testing.T) {
			now, dir := wrong, t.TempDir()
			clock := func() time.Time { return now }
			running := ensure(t, Options{DataDir: dir, Now: clock})
			token, key := tokenIn(t, running), files(t, dir)["pki/ca.key"]
			client, err := issue(&x509.Certificate{
				SerialNumber: serial(), NotBefore: time.Unix(0, 0), NotAfter: right.AddDate(10, 0, 0),
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			}, running.authority.Load(), t.TempDir()+"/c.crt", t.TempDir()+"/c.key")
			if err != nil {
				t.Fatal(err)
			}
			before := t.TempDir() // a copy in the hands of a client
			if err := os.Mkdir(before+"/pki", 0o700); err != nil {
				t.Fatal(err)
			}
			for name, content := range files(t, dir) {
				if err := os.WriteFile(filepath.Join(before, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			now = right
			running.current()
			restarted := ensure(t, Options{DataDir: before, Now: clock}) // another copy, renewed by a start
			for how, c := range map[string]*Credentials{"running": running, "restarted": restarted} {
				if err := trusted(t, c, c.opts.DataDir, right); err != nil {
					t.Errorf("%s: %v", how, err)
				}
				if tokenIn(t, c) != token || !c.IsAdminToken(token) || files(t, c.opts.DataDir)["pki/ca.key"] != key {
					t.Errorf("%s: the token or the key of the CA has changed", how)
				}
				_, err := client.Leaf.Verify(x509.VerifyOptions{Roots: c.ClientCAs(), CurrentTime: right,
					KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
				if err != nil {
					t.Errorf("%s: a client certificate of this CA: %v", how, err)
				}
			}
			// Either copy's kubeconfig does for the other: they share the key.
			if err := trusted(t, running, restarted.opts.DataDir, right); err != nil {
				t.Error(err)
			}
			settled := files(t, dir)
			ensure(t, Options{DataDir: dir, Now: clock})
			for file, content := range files(t, dir) {
				if settled[file] != content {
					t.Errorf("the next start changes %s again", file)
				}
			}
		})
	}
}

// TestClockThatIsBehindEndsNoTrust: a start with the clock of 1970 does not make the
// CA that clients hold worthless for the time when the clock is right again.
func TestClockThatIsBehindEndsNoTrust(t *testing.T) {
	right := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	now, dir := right, t.TempDir()
	opts := Options{DataDir: dir, Now: func() time.Time { return now }}
	held := ensure(t, opts).ClientCAs()
	now = time.Unix(1000, 0)
	ensure(t, opts)
	now = right
	c := ensure(t, opts)
	if _, err := c.current().Leaf.Verify(x509.VerifyOptions{Roots: held, CurrentTime: right}); err != nil {
		t.Error(err)
	}
}

func TestHandshake(t *testing.T) {
	c := ensure(t, Options{DataDir: t.TempDir()})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", c.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	defer server.Close()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(),
		&tls.Config{RootCAs: c.ClientCAs()})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
