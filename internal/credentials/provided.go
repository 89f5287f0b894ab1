package credentials

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"glowplug/internal/keyfile"
)

// provided is an own certificate of the operator, which is read again when its file changes.
type provided struct {
	*keyfile.Follower
	pair atomic.Pointer[tls.Certificate]
}

// readProvided reads the own certificate of the operator, if there is one.
func (c *Credentials) readProvided() error {
	if c.opts.CertFile == "" {
		return nil
	}
	p := &provided{}
	// The key is read with the certificate. While only one of them is new they do not
	// belong together, and the former pair is served.
	take := func(cert []byte) error {
		key, err := keyfile.Read(keyfile.Secret, c.opts.KeyFile)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return &ProvidedError{Cert: c.opts.CertFile, Key: c.opts.KeyFile, Err: err}
		}
		p.pair.Store(&pair)
		return nil
	}
	var err error
	if p.Follower, err = keyfile.Follow(keyfile.Trusted, c.opts.CertFile, c.opts.Logger, take); err != nil {
		return err
	}
	c.provided = p
	return nil
}

// ProvidedError is an own certificate that cannot be used.
type ProvidedError struct {
	Cert, Key string
	Err       error
}

func (e *ProvidedError) Error() string {
	return "the certificate " + e.Cert + " and the key " + e.Key + " cannot be used: " + e.Err.Error()
}

func (e *ProvidedError) Unwrap() error { return e.Err }

// Hint returns the remedy.
func (e *ProvidedError) Hint() string {
	return "both are PEM files; the first certificate of the former belongs to the key, and its CAs follow it"
}

// FollowProvided reads the own certificate of the operator again when it changes, until ctx
// ends.
func (c *Credentials) FollowProvided(ctx context.Context) {
	if c.provided != nil {
		c.provided.Run(ctx, func() {})
	}
}

// certificateFor returns the certificate for a client: that of the operator, if there is
// one, unless the client asks for a name or an address that only the server's own
// certificate has, or for a loopback address, as admin.kubeconfig does.
func (c *Credentials) certificateFor(hello *tls.ClientHelloInfo) *tls.Certificate {
	own := c.current()
	if c.provided == nil {
		return own
	}
	given := c.provided.pair.Load()
	if hello.ServerName != "" {
		if given.Leaf.VerifyHostname(hello.ServerName) != nil && own.Leaf.VerifyHostname(hello.ServerName) == nil {
			return own
		}
		return given
	}
	// The client has connected to an address, which may be that of a load balancer.
	host, _, _ := net.SplitHostPort(hello.Conn.LocalAddr().String())
	if net.ParseIP(host).IsLoopback() || len(given.Leaf.IPAddresses) == 0 {
		return own
	}
	return given
}
