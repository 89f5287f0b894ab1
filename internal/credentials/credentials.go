// Package credentials creates what a secure server needs, on its first start, and keeps
// it: an own CA, a server certificate, an admin token (stored as its hash alone) and an
// admin.kubeconfig that holds all a client needs.
package credentials

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/keyfile"
)

// Names of files and folders in the data directory.
const (
	// Kubeconfig is the admin's kubeconfig, mode 0600.
	Kubeconfig = "admin.kubeconfig"

	folder    = "pki"
	caCert    = "ca.crt" // this and the next two are in Options.PKIDir
	caKey     = "ca.key"
	caLock    = "ca.lock"
	serverCrt = "server.crt"
	serverKey = "server.key"
	tokenHash = "admin-token.sha256"
)

// Folder returns the folder of the keys and certificates of a data directory.
func Folder(dataDir string) string { return filepath.Join(dataDir, folder) }

// Secrets returns the files that only the server's user may read.
func Secrets(dataDir, pkiDir string) []string {
	return []string{
		filepath.Join(dataDir, Kubeconfig), filepath.Join(cmp.Or(pkiDir, Folder(dataDir)), caKey),
		filepath.Join(dataDir, folder, serverKey), filepath.Join(dataDir, folder, tokenHash),
	}
}

// Certificates returns the files that others may read.
func Certificates(dataDir, pkiDir string) []string {
	return []string{
		filepath.Join(cmp.Or(pkiDir, Folder(dataDir)), caCert), filepath.Join(dataDir, folder, serverCrt),
	}
}

// Options configures Ensure.
type Options struct {
	// DataDir is the server's data directory, which is created if missing.
	DataDir string
	// PKIDir is the folder of the CA, which several servers may share; "": the folder pki
	// of the data directory, which has the other keys and certificates.
	PKIDir string
	// CertFile and KeyFile are an own certificate of the operator (--tls-cert-file); "":
	// there is none.
	CertFile, KeyFile string
	// Server is the URL in admin.kubeconfig, such as https://127.0.0.1:8443.
	Server string
	// Names are further names and addresses of the server (--tls-san), beside its
	// host name, localhost and all addresses of its network cards but link-local ones.
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
	token     atomic.Pointer[hashedToken]
	authority atomic.Pointer[tls.Certificate]
	serving   atomic.Pointer[tls.Certificate]
	provided  *provided // nil without an own certificate of the operator
	// others are the tokens of the other servers of the store.
	others atomic.Pointer[map[hashedToken]bool]

	renewing sync.Mutex
	retryAt  time.Time // after a renewal that failed; under renewing
}

// Ensure creates what is missing in the data directory and renews a certificate that is
// not valid yet, is near its end or names another machine. Otherwise it changes nothing.
// Errors name the file and a remedy.
func Ensure(opts Options) (*Credentials, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.PKIDir = cmp.Or(opts.PKIDir, Folder(opts.DataDir))
	c := &Credentials{opts: opts}
	c.others.Store(&map[hashedToken]bool{})
	c.token.Store(&hashedToken{})
	err := os.MkdirAll(Folder(opts.DataDir), 0o700)
	for _, step := range []func() error{
		c.ensureAuthority, c.findNames, c.ensureServing, c.readProvided, c.ensureAdmin,
	} {
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
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.certificateFor(hello), nil
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

// IsAdminToken reports whether a bearer token is the admin's, of this server or of another
// one of the store.
func (c *Credentials) IsAdminToken(token string) bool {
	return c.token.Load().matches(token) || (*c.others.Load())[hashOf(token)]
}

// KubeconfigPath returns the path of the admin's kubeconfig.
func (c *Credentials) KubeconfigPath() string { return filepath.Join(c.opts.DataDir, Kubeconfig) }

func (c *Credentials) path(name string) string { return filepath.Join(Folder(c.opts.DataDir), name) }

// caPath returns the path of a file of the CA.
func (c *Credentials) caPath(name string) string { return filepath.Join(c.opts.PKIDir, name) }

// writeFile replaces a file with all of data or leaves it as it was. Only the owner may
// read it. It belongs to the user of the former file, also if root writes it.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // renamed by then, unless there was an error
	_, err = f.Write(data)    // CreateTemp has created it with mode 0600
	if former, statErr := os.Stat(path); err == nil && statErr == nil && os.Geteuid() == 0 {
		err = keyfile.GiveOwner(f, former)
	}
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

// hashedToken is the SHA-256 of a token. The token has 256 random bits, so a salt or a
// slow hash would not make it harder to guess.
type hashedToken [sha256.Size]byte

func hashOf(token string) hashedToken { return sha256.Sum256([]byte(token)) }

func (h hashedToken) matches(token string) bool {
	other := hashOf(token)
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}
