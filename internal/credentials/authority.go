package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// headStart is how long before its making a certificate is valid, for clients
	// whose clock is behind.
	headStart = 48 * time.Hour
)

// authority is the own CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ensureAuthority reads the CA, or makes it where there is none. One that is not
// fit for use is prolonged.
func (c *Credentials) ensureAuthority() error {
	cert, key, err := readPair(c.path(caCert), c.path(caKey))
	if err != nil {
		return err
	}
	now := c.opts.Now()
	if cert == nil {
		c.opts.Logger.Info("making a CA", "file", c.path(caCert))
		template := authorityTemplate(now)
		template.Subject = pkix.Name{CommonName: fmt.Sprintf("glowplug CA %d", now.Unix())}
		cert, key, err = issue(template, nil, c.path(caCert), c.path(caKey))
		if err != nil {
			return err
		}
	}
	c.authority.Store(&authority{cert, key})
	return c.prolongAuthority(now)
}

// prolongAuthority makes the certificate of a CA that is not fit for use anew, with
// the same name and key: what it has signed stays good, and the old certificate stays
// good for clients as long as it is valid. So a clock that is wrong for a while, which
// may be now, costs nobody the trust in this server.
func (c *Credentials) prolongAuthority(now time.Time) error {
	old := c.authority.Load()
	why := unfit(old.cert, authorityLife, now)
	if why == "" {
		return nil
	}
	c.opts.Logger.Warn("renewing the certificate of the CA: clients need the new admin.kubeconfig",
		"because", why, "file", c.path(caCert), "kubeconfig", c.KubeconfigPath())
	template := authorityTemplate(now)
	template.RawSubject, template.SubjectKeyId = old.cert.RawSubject, old.cert.SubjectKeyId
	cert, err := sign(template, &authority{template, old.key}, old.key.Public())
	if err != nil {
		return err
	}
	if err := writeFile(c.path(caCert), certPEM(cert.Raw)); err != nil {
		return err
	}
	c.authority.Store(&authority{cert, old.key})
	return nil
}

func authorityTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          serial(),
		NotBefore:             now.Add(-headStart),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
}

// unfit says why a certificate needs to be renewed, "" where it does not: its life
// has not begun, or less than a fifth of what it is given at first is left.
func unfit(cert *x509.Certificate, life time.Duration, now time.Time) string {
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("it is not valid before %s: it was made while the clock was ahead, or the clock is behind now",
			cert.NotBefore.UTC().Format(time.RFC3339))
	case cert.NotAfter.Sub(now) < life/5:
		return "it ends " + cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// issue makes a key and a certificate, signed by parent or, where that is nil, by
// itself, and writes both: the key first, so that a certificate always has one.
func issue(template *x509.Certificate, parent *authority, certPath, keyPath string) (*x509.Certificate, crypto.Signer,
	error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent = &authority{template, key}
	}
	cert, err := sign(template, parent, key.Public())
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := writeFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, nil, err
	}
	return cert, key, writeFile(certPath, certPEM(cert.Raw))
}

func sign(template *x509.Certificate, parent *authority, key crypto.PublicKey) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key, parent.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// readPair reads a certificate and its key; all nil where there is none. A key
// without a certificate is a making that was cut short, and counts as none.
func readPair(certPath, keyPath string) (*x509.Certificate, crypto.Signer, error) {
	certData, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(certData)
	if block == nil {
		return nil, nil, damaged(certPath, errors.New("no PEM block"))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, damaged(certPath, err)
	}
	keyData, err := os.ReadFile(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf(
			"%s is there but its key %s is not: put the key back, or remove the certificate to have both made anew", certPath,
			keyPath)
	}
	if err != nil {
		return nil, nil, err
	}
	if block, _ = pem.Decode(keyData); block == nil {
		return nil, nil, damaged(keyPath, errors.New("no PEM block"))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, damaged(keyPath, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, damaged(keyPath, errors.New("not a key that signs"))
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s: put the right one back, or remove both to have them made anew",
			keyPath, certPath)
	}
	return cert, key, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged (%w): restore it, or remove it to have it made anew", path, err)
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
