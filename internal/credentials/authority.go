package credentials

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour

	// lockTimeout bounds the wait for another server that creates the CA.
	lockTimeout = 10 * time.Second
	lockRetry   = 10 * time.Millisecond

	// authorityName begins the common name of each CA that a server creates.
	authorityName = "glowplug CA "
)

// validFrom is the first second of the certificates that the server signs. The clock of a machine
// without a battery shows the build date of its image, or 1970, until it has reached a time server.
var validFrom = time.Unix(0, 0)

// ensureAuthority reads the CA, creates it where there is none, and renews it where it
// is not fit for use.
func (c *Credentials) ensureAuthority() error {
	ca, err := c.readAuthority()
	if err != nil {
		return err
	}
	if ca == nil {
		if ca, err = c.createAuthority(); err != nil {
			return err
		}
	}
	c.authority.Store(ca)
	now := c.opts.Now()
	why := unfit(ca.Leaf, authorityLife, now)
	if why == "" && madeHere(ca.Leaf) {
		why = late(ca.Leaf)
	}
	err = c.renewAuthority(now, why)
	if err != nil && unfit(ca.Leaf, 0, now) == "" {
		// A shared folder may be read-only. The certificate is renewed years before its end.
		c.opts.Logger.Error("the certificate of the CA could not be renewed", "end", ca.Leaf.NotAfter, "error", err)
		return nil
	}
	return err
}

func (c *Credentials) readAuthority() (*tls.Certificate, error) {
	return readPair(c.caPath(caCert), c.caPath(caKey))
}

// createAuthority creates the CA. Servers that share its folder do so one after the other,
// and the first one's is taken.
func (c *Credentials) createAuthority() (*tls.Certificate, error) {
	if err := os.MkdirAll(c.opts.PKIDir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock := flock.New(c.caPath(caLock), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("locking %s: %w", c.caPath(caLock), err)
	}
	defer func() { _ = lock.Close() }()
	if ca, err := c.readAuthority(); ca != nil || err != nil {
		return ca, err
	}
	c.opts.Logger.Info("creating a CA", "file", c.caPath(caCert))
	now := c.opts.Now()
	template := authorityTemplate(now)
	template.Subject = pkix.Name{CommonName: fmt.Sprintf(authorityName+"%d", now.Unix())}
	return issue(template, nil, c.caPath(caCert), c.caPath(caKey))
}

// renewAuthority replaces the certificate of the CA by one with the same name and key, because
// of why; it does nothing where that is "". Certificates that the CA has signed stay valid, and so does the
// old certificate for clients. So a clock that is wrong for a while, which may be now,
// does not end the clients' trust in this server.
func (c *Credentials) renewAuthority(now time.Time, why string) error {
	if why == "" {
		return nil
	}
	old := c.authority.Load()
	c.opts.Logger.Warn("renewing the certificate of the CA: clients whose copy of it has ended need the new"+
		" admin.kubeconfig", "because", why, "file", c.caPath(caCert), "kubeconfig", c.KubeconfigPath())
	template := authorityTemplate(now)
	template.RawSubject, template.SubjectKeyId = old.Leaf.RawSubject, old.Leaf.SubjectKeyId
	ca, err := sign(template, template, old.PrivateKey, old.PrivateKey, c.caPath(caCert))
	if err != nil {
		return err
	}
	c.authority.Store(ca)
	return nil
}

func authorityTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          serial(),
		NotBefore:             validFrom,
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
}

// unfit says why a certificate needs to be renewed: it is not valid yet, or less than a
// fifth of its life is left. "": it need not be.
func unfit(cert *x509.Certificate, life time.Duration, now time.Time) string {
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("it is not valid before %s: it was created while the clock was ahead, or the clock is behind now",
			cert.NotBefore.UTC().Format(time.RFC3339))
	case cert.NotAfter.Sub(now) < life/5:
		return "it ends " + cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// late says why a certificate of this server needs to be renewed at a start although it is valid. "": it need
// not be.
func late(cert *x509.Certificate) string {
	if !cert.NotBefore.After(validFrom) {
		return ""
	}
	return "machines whose clock is before " + cert.NotBefore.UTC().Format(time.RFC3339) + " do not accept it"
}

// madeHere reports whether a server has created this CA: the dates of a CA from elsewhere are its owner's.
func madeHere(ca *x509.Certificate) bool {
	return strings.HasPrefix(ca.Subject.CommonName, authorityName) && bytes.Equal(ca.RawIssuer, ca.RawSubject)
}

// issue creates a key and a certificate, signed by parent or, where that is nil, by
// itself. It removes the old certificate and writes the key first: if the server is killed
// in between, there is a key without a certificate, which is not used.
func issue(template *x509.Certificate, parent *tls.Certificate, certPath, keyPath string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := writeFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, err
	}
	if parent == nil {
		return sign(template, template, key, key, certPath)
	}
	return sign(template, parent.Leaf, parent.PrivateKey, key, certPath)
}

// sign signs a certificate for a key with the key of its parent, and writes it.
func sign(template, parent *x509.Certificate, parentKey, key crypto.PrivateKey, path string) (*tls.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.(crypto.Signer).Public(), parentKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}, writeFile(path, certPEM(raw))
}

// readPair reads a certificate and its key; nil where there is no certificate. A key
// without a certificate is left over from an interrupted issue and is not used.
func readPair(certPath, keyPath string) (*tls.Certificate, error) {
	cert, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there but its key %s is not: put the key back, or remove the certificate to have"+
			" both created again", certPath, keyPath)
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and its key %s are damaged or do not belong together (%w): restore them,"+
			" or remove both to have them created again", certPath, keyPath, err)
	}
	return &pair, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged (%w): restore it, or remove it to have it created again", path, err)
}

func certPEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func serial() *big.Int {
	var raw [16]byte
	rand.Read(raw[:])
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw[:])
}
