// Package credentials creates what a secure server needs, on its first start, and keeps
// it: an own CA, a server certificate, an admin token (stored as its hash alone) and an
// admin.kubeconfig that holds all a client needs.
package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Names of files and folders in the data directory.
const (
	// Kubeconfig is the admin's kubeconfig, mode 0600.
	Kubeconfig = "admin.kubeconfig"

	folder    = "pki"
	caCert    = "ca.crt"
	caKey     = "ca.key"
	serverCrt = "server.crt"
	serverKey = "server.key"
	tokenHash = "admin-token.sha256"
)

// Folder returns the folder of the keys and certificates of a data directory.
func Folder(dataDir string) string { return filepath.Join(dataDir, folder) }

// Secrets returns the files of a data directory that only the server's user may read.
func Secrets(dataDir string) []string {
	return []string{
		filepath.Join(dataDir, Kubeconfig), filepath.Join(dataDir, folder, caKey),
		filepath.Join(dataDir, folder, serverKey), filepath.Join(dataDir, folder, tokenHash),
	}
}

// Certificates returns the files of a data directory that others may read.
func Certificates(dataDir string) []string {
	return []string{filepath.Join(dataDir, folder, caCert), filepath.Join(dataDir, folder, serverCrt)}
}

// Options configures Ensure.
type Options struct {
	// DataDir is the server's data directory, which is created if missing.
	DataDir string
	// Server is the URL in admin.kubeconfig, such as https://127.0.0.1:8443.
	Server string
	// Names are further names and addresses of the server (--tls-san), beside its
	// host name, localhost and all addresses of its network cards.
	Names []string
	// Logger logs what is created or renewed; nil: there is no log.
	Logger *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Credentials is what Ensure found or created.
type Credentials struct {
	opts      Options
	names     names
	token     hashedToken
	authority atomic.Pointer[tls.Certificate]
	serving   atomic.Pointer[tls.Certificate]

	renewing sync.Mutex
	retryAt  time.Time // after a renewal that failed; under renewing
}

// Ensure creates what is missing in the data directory and renews a certificate that is
// not valid yet, is near its end or names another machine. Otherwise it changes nothing.
// Errors name the file and a remedy.
func Ensure(opts Options) (*Credentials, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Credentials{opts: opts}
	err := os.MkdirAll(Folder(opts.DataDir), 0o700)
	for _, step := range []func() error{c.ensureAuthority, c.findNames, c.ensureServing, c.ensureAdmin} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return c, nil
}

// TLSConfig returns the configuration of the HTTPS listener. Client certificates are
// optional, and verified by the API. The server's certificate and the CA's are renewed
// while they are served.
func (c *Credentials) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current(), nil
		},
	}
}

// ClientCAs returns a new pool with the CA as it is now.
func (c *Credentials) ClientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.Load().Leaf)
	return pool
}

// CAPEM returns the CA's certificate, for clients.
func (c *Credentials) CAPEM() []byte { return certPEM(c.authority.Load().Leaf.Raw) }

// IsAdminToken reports whether a bearer token is the admin's.
func (c *Credentials) IsAdminToken(token string) bool { return c.token.matches(token) }

// KubeconfigPath returns the path of the admin's kubeconfig.
func (c *Credentials) KubeconfigPath() string { return filepath.Join(c.opts.DataDir, Kubeconfig) }

func (c *Credentials) path(name string) string { return filepath.Join(Folder(c.opts.DataDir), name) }

// writeFile replaces a file with all of data or leaves it as it was. Only the owner may
// read it.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // renamed by then, unless there was an error
	_, err = f.Write(data)    // CreateTemp has created it with mode 0600
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
