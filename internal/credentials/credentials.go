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

// Folder is where the keys and certificates of a data directory lie.
func Folder(dataDir string) string { return filepath.Join(dataDir, folder) }

// Secrets are the files of a data directory that nobody else may read.
func Secrets(dataDir string) []string {
	return []string{
		filepath.Join(dataDir, Kubeconfig), filepath.Join(dataDir, folder, caKey),
		filepath.Join(dataDir, folder, serverKey), filepath.Join(dataDir, folder, tokenHash),
	}
}

// Certificates are the files of a data directory that others may read.
func Certificates(dataDir string) []string {
	return []string{filepath.Join(dataDir, folder, caCert), filepath.Join(dataDir, folder, serverCrt)}
}

// Options configures Ensure.
type Options struct {
	// DataDir is the server's data directory; it is made if missing.
	DataDir string
	// Server is the URL that admin.kubeconfig points to, such as
	// https://127.0.0.1:8443.
	Server string
	// Names are further names and addresses of the server (--tls-san), beside its
	// host name, localhost and all addresses of its network cards.
	Names []string
	// Logger is told what is made or renewed; nil: nobody.
	Logger *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Credentials is what Ensure found or made.
type Credentials struct {
	opts      Options
	names     *names
	token     hashedToken
	authority atomic.Pointer[authority]
	serving   atomic.Pointer[tls.Certificate]

	renewing sync.Mutex
	retryAt  time.Time // after a renewal that failed; under renewing
}

// Ensure makes what is missing in the data directory and renews what is not valid
// yet, is near its end or names another machine. On a directory where all is well it changes
// nothing. Errors name the file and say what to do.
func Ensure(opts Options) (*Credentials, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Credentials{opts: opts}
	if err := os.MkdirAll(c.path(""), 0o700); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := c.ensureAuthority(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	var err error
	if c.names, err = allNames(opts.Names); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := c.ensureServing(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := c.ensureAdmin(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return c, nil
}

// TLSConfig is for the listener of HTTPS. Client certificates are asked for but
// not demanded, and verified by the API. The server's certificate and the CA's are
// renewed while they are served.
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

// ClientCAs is a new pool that holds the own CA as it is now.
func (c *Credentials) ClientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.Load().cert)
	return pool
}

// CAPEM is the CA's certificate, for clients.
func (c *Credentials) CAPEM() []byte { return certPEM(c.authority.Load().cert.Raw) }

// IsAdminToken reports whether a bearer token is the admin's.
func (c *Credentials) IsAdminToken(token string) bool { return c.token.matches(token) }

// KubeconfigPath is where the admin's kubeconfig lies.
func (c *Credentials) KubeconfigPath() string { return filepath.Join(c.opts.DataDir, Kubeconfig) }

func (c *Credentials) path(name string) string {
	return filepath.Join(c.opts.DataDir, folder, name)
}

// writeFile replaces a file with all of data or leaves it as it was, readable by
// the owner alone.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	_, err = f.Write(data)    // CreateTemp made it 0600
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
