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

// ensureAuthority reads the CA, or makes it where there is none or it has ended.
func (c *Credentials) ensureAuthority() (*authority, error) {
	cert, key, err := readPair(c.path(caCert), c.path(caKey))
	switch {
	case err != nil:
		return nil, err
	case cert == nil:
		c.opts.Logger.Info("making a CA", "file", c.path(caCert))
	case nearEnd(cert, c.opts.Now()):
		c.opts.Logger.Warn("the CA is near its end: making a new one; clients need the new admin.kubeconfig", "end", cert.NotAfter)
	default:
		return &authority{cert, key}, nil
	}
	now := c.opts.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("glowplug CA %d", now.Unix())},
		NotBefore:             now.Add(-headStart),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, key, err = issue(template, nil, c.path(caCert), c.path(caKey))
	if err != nil {
		return nil, err
	}
	return &authority{cert, key}, nil
}

// nearEnd tells whether less than a fifth of a certificate's life is left. Before
// its life it is fine: then the clock is wrong, not the certificate.
func nearEnd(cert *x509.Certificate, now time.Time) bool {
	return cert.NotAfter.Sub(now) < cert.NotAfter.Sub(cert.NotBefore)/5
}

// issue makes a key and a certificate, signed by parent or, where that is nil, by
// itself, and writes both: the key first, so that a certificate always has one.
func issue(template *x509.Certificate, parent *authority, certPath, keyPath string) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent = &authority{template, key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(raw)
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
	return cert, key, writeFile(certPath, certPEM(raw))
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
		return nil, nil, fmt.Errorf("%s is there but its key %s is not: put the key back, or remove the certificate to have both made anew", certPath, keyPath)
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
		return nil, nil, fmt.Errorf("%s is not the key of %s: put the right one back, or remove both to have them made anew", keyPath, certPath)
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
