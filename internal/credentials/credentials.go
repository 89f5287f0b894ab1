// Package credentials creates what a secure server needs, on its first start, and keeps
// it: an own CA, a server certificate, an admin token (stored as its hash alone) and an
// admin.kubeconfig that holds all a client needs.
package credentials

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"
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
	token     hashedToken
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
	return c.token.matches(token) || (*c.others.Load())[hashOf(token)]
}

// KubeconfigPath returns the path of the admin's kubeconfig.
func (c *Credentials) KubeconfigPath() string { return filepath.Join(c.opts.DataDir, Kubeconfig) }

func (c *Credentials) path(name string) string { return filepath.Join(Folder(c.opts.DataDir), name) }

// caPath returns the path of a file of the CA.
func (c *Credentials) caPath(name string) string { return filepath.Join(c.opts.PKIDir, name) }

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

// hashedToken is the SHA-256 of a token. The token has 256 random bits, so a salt or a
// slow hash would not make it harder to guess.
type hashedToken [sha256.Size]byte

func hashOf(token string) hashedToken { return sha256.Sum256([]byte(token)) }

func (h hashedToken) matches(token string) bool {
	other := hashOf(token)
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

// kubeconfig is the part of the file that is read back.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     string `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// ensureAdmin reads the hash of the admin's token and makes sure that admin.kubeconfig
// has that token, the CA and the server's URL. Where the file is missing or has another
// token, a new token is created: a token cannot be derived from its hash.
func (c *Credentials) ensureAdmin() error {
	if err := c.readHash(); err != nil {
		return err
	}
	token, current, err := c.readKubeconfig()
	if err != nil {
		return err
	}
	if token == "" || !c.token.matches(token) {
		c.opts.Logger.Info("creating an admin token", "file", c.KubeconfigPath())
		raw := make([]byte, 32)
		rand.Read(raw)
		token, current = base64.RawURLEncoding.EncodeToString(raw), false
		c.token = hashOf(token)
	}
	if current {
		return nil
	}
	if err := writeFile(c.KubeconfigPath(), c.kubeconfig(token)); err != nil {
		return err
	}
	return writeFile(c.path(tokenHash), []byte(hex.EncodeToString(c.token[:])+"\n"))
}

// refreshAdmin writes the present CA into an admin.kubeconfig that has the admin's token.
// One that the admin has removed or changed stays as it is until the next start.
func (c *Credentials) refreshAdmin() error {
	token, current, err := c.readKubeconfig()
	if err != nil || current || !c.token.matches(token) {
		return err
	}
	return writeFile(c.KubeconfigPath(), c.kubeconfig(token))
}

// readHash reads the hash of the admin's token; a missing file leaves the zero hash,
// which no token has.
func (c *Credentials) readHash() error {
	data, err := os.ReadFile(c.path(tokenHash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(raw) != sha256.Size {
		return damaged(c.path(tokenHash), errors.New("want 64 hexadecimal digits"))
	}
	c.token = hashedToken(raw)
	return nil
}

// readKubeconfig returns the token of admin.kubeconfig, "" where there is no file, and
// reports whether its server and CA are the present ones.
func (c *Credentials) readKubeconfig() (token string, current bool, err error) {
	path := c.KubeconfigPath()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return "", false, damaged(path, err)
	}
	if len(k.Users) == 0 || len(k.Clusters) == 0 {
		return "", false, nil
	}
	cluster := k.Clusters[0].Cluster
	current = cluster.Server == c.opts.Server && cluster.CA == base64.StdEncoding.EncodeToString(c.CAPEM())
	return k.Users[0].User.Token, current, nil
}

func (c *Credentials) kubeconfig(token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: glowplug
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    token: %s
contexts:
- name: glowplug
  context:
    cluster: glowplug
    user: admin
    namespace: default
current-context: glowplug
`, c.opts.Server, base64.StdEncoding.EncodeToString(c.CAPEM()), token)
}
