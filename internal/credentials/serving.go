package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/keyfile"
)

// servingLife is the time from the creation of a server certificate to its end.
const servingLife = 397 * 24 * time.Hour

// names are the names and addresses in the server's certificate, sorted.
type names struct {
	dns []string
	ips []netip.Addr
}

// ParseName reads a name for the server's certificate: an address, or a host name, which may
// begin with "*.".
func ParseName(name string) (ip netip.Addr, host string, err error) {
	if ip, err := netaddr.ParseIP(name); err == nil {
		return ip, "", nil
	}
	host, wildcard := strings.CutPrefix(name, "*.")
	if host, err = netaddr.ParseHostname(host); err != nil {
		return ip, "", fmt.Errorf("%q is neither an address nor a host name", name)
	}
	if wildcard {
		host = "*." + host
	}
	return ip, host, nil
}

// findNames collects localhost, the host name, all addresses of this machine but
// link-local ones, and the names and addresses of the options.
func (c *Credentials) findNames() error {
	n := names{dns: []string{"localhost"}, ips: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
	if host, err := os.Hostname(); err == nil {
		if name, err := netaddr.ParseHostname(host); err == nil {
			n.dns = append(n.dns, name)
		}
	}
	for _, name := range c.opts.Names {
		ip, host, err := ParseName(name)
		switch {
		case err != nil:
			return fmt.Errorf("--tls-san %w", err)
		case ip.IsValid():
			n.ips = append(n.ips, ip)
		default:
			n.dns = append(n.dns, host)
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot list the addresses of this machine: %w", err)
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			n.ips = append(n.ips, prefix.Addr().Unmap())
		}
	}
	slices.Sort(n.dns)
	slices.SortFunc(n.ips, netip.Addr.Compare)
	c.names = names{slices.Compact(n.dns), slices.Compact(n.ips)}
	return nil
}

// areOf reports whether a certificate has exactly these names.
func (n *names) areOf(cert *x509.Certificate) bool {
	ips := make([]netip.Addr, 0, len(cert.IPAddresses))
	for _, ip := range cert.IPAddresses {
		addr, _ := netip.AddrFromSlice(ip)
		ips = append(ips, addr.Unmap())
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Equal(n.ips, ips) && slices.Equal(n.dns, slices.Sorted(slices.Values(cert.DNSNames)))
}

// ensureServing reads the server's certificate. It creates one where there is none, or where the
// certificate is of another CA, is not valid early enough, ends soon or names another machine.
func (c *Credentials) ensureServing() error {
	cert, err := readPair(c.path(serverCrt), c.path(serverKey))
	if err != nil {
		return err
	}
	why := "there is none"
	if cert != nil {
		why = unfit(cert.Leaf, servingLife, c.opts.Now())
	}
	switch {
	case why != "":
	case late(cert.Leaf) != "":
		why = late(cert.Leaf)
	case cert.Leaf.CheckSignatureFrom(c.authority.Load().Leaf) != nil:
		why = "it is of another CA"
	case !c.names.areOf(cert.Leaf):
		why = "the names or addresses of the server have changed"
	default:
		c.serving.Store(cert)
		return nil
	}
	c.opts.Logger.Info("creating a server certificate", "because", why, "names", c.names.dns, "addresses", c.names.ips)
	return c.issueServing()
}

func (c *Credentials) issueServing() error {
	now, authority := c.opts.Now(), c.authority.Load()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "glowplug"},
		NotBefore:    validFrom,
		NotAfter:     now.Add(servingLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     c.names.dns,
	}
	if end := authority.Leaf.NotAfter; end.Before(template.NotAfter) {
		template.NotAfter = end
	}
	for _, ip := range c.names.ips {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	}
	cert, err := issue(template, authority, c.path(serverCrt), c.path(serverKey))
	if err != nil {
		return err
	}
	c.serving.Store(cert)
	return nil
}

// current returns the server's certificate. It renews it first where it, or the CA, is
// not fit for use. Where that fails the old one is still better than none.
func (c *Credentials) current() *tls.Certificate {
	if c.fit() {
		return c.serving.Load()
	}
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if c.fit() || c.opts.Now().Before(c.retryAt) {
		return c.serving.Load()
	}
	if err := c.renew(); err != nil {
		c.opts.Logger.Error("the server certificate could not be renewed", "end", c.serving.Load().Leaf.NotAfter, "error",
			err)
		c.retryAt = c.opts.Now().Add(time.Hour)
	}
	return c.serving.Load()
}

// Validity is until when a certificate is valid.
type Validity struct {
	Name string
	Ends time.Time
	// IsRenewed is true where this server renews it by itself.
	IsRenewed bool
}

// Certificates returns until when the certificates are valid: the operator's, where there is one, the server's own and
// the CA's.
func (c *Credentials) Certificates() (all []Validity) {
	if c.provided != nil {
		all = append(all, Validity{Name: "certificate of --tls-cert-file", Ends: c.provided.pair.Load().Leaf.NotAfter})
	}
	return append(all, Validity{"own certificate", c.serving.Load().Leaf.NotAfter, true},
		Validity{"certificate of the CA", c.authority.Load().Leaf.NotAfter, true})
}

// fit reports whether the certificates of the server and of the CA are fit for use.
func (c *Credentials) fit() bool {
	now := c.opts.Now()
	return unfit(c.authority.Load().Leaf, authorityLife, now) == "" && unfit(c.serving.Load().Leaf, servingLife, now) == ""
}

// renew renews the server's certificate, and before it the CA's where that is not fit.
func (c *Credentials) renew() error {
	now := c.opts.Now()
	if err := c.renewAuthority(now, unfit(c.authority.Load().Leaf, authorityLife, now)); err != nil {
		return err
	}
	if err := c.refreshAdmin(); err != nil {
		return err
	}
	c.opts.Logger.Info("renewing the server certificate", "end", c.serving.Load().Leaf.NotAfter)
	return c.issueServing()
}

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
	// The client has connected to an address, which may be that of a load balancer.
	host, _, _ := net.SplitHostPort(hello.Conn.LocalAddr().String())
	return c.choose(hello.ServerName, host)
}

// choose is certificateFor for a name, which is "" if the client asks for none, and for the address to which it
// has connected.
func (c *Credentials) choose(name, address string) *tls.Certificate {
	own := c.current()
	if c.provided == nil {
		return own
	}
	given := c.provided.pair.Load()
	if name != "" {
		if given.Leaf.VerifyHostname(name) != nil && own.Leaf.VerifyHostname(name) == nil {
			return own
		}
		return given
	}
	if net.ParseIP(address).IsLoopback() || len(given.Leaf.IPAddresses) == 0 {
		return own
	}
	return given
}

// Verify returns why the certificate that a client receives is not valid for the name or the address by which it
// asks; nil: it is valid.
func (c *Credentials) Verify(host string) error {
	name, address := host, ""
	if net.ParseIP(host) != nil {
		name, address = "", host // TLS has no names of servers that are addresses (RFC 6066, section 3)
	}
	return c.choose(name, address).Leaf.VerifyHostname(host)
}

// Authorities returns the certificates, each in PEM, that a client has to trust to use HTTPS: that of the own
// CA, and those of the CAs that follow an own certificate of the operator.
func (c *Credentials) Authorities() [][]byte {
	all := [][]byte{c.CAPEM()}
	if c.provided == nil {
		return all
	}
	for _, raw := range c.provided.pair.Load().Certificate {
		if cert, err := x509.ParseCertificate(raw); err == nil && cert.IsCA {
			all = append(all, certPEM(raw))
		}
	}
	return all
}
