package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"glowplug/internal/domain/netaddr"
)

// servingLife is what clients accept at most from any CA.
const servingLife = 397 * 24 * time.Hour

// names is what the server's certificate says it is called, sorted.
type names struct {
	dns []string
	ips []netip.Addr
}

// allNames is localhost, the host name, all addresses of this machine, and the
// given names and addresses.
func allNames(given []string) (*names, error) {
	n := &names{dns: []string{"localhost"}, ips: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
	if host, err := os.Hostname(); err == nil {
		if name, err := netaddr.ParseHostname(host); err == nil {
			n.dns = append(n.dns, name)
		}
	}
	for _, name := range given {
		if ip, err := netaddr.ParseIP(name); err == nil {
			n.ips = append(n.ips, ip)
			continue
		}
		host, err := netaddr.ParseHostname(strings.TrimPrefix(name, "*."))
		if err != nil {
			return nil, fmt.Errorf("--tls-san %q is neither an address nor a host name", name)
		}
		if strings.HasPrefix(name, "*.") {
			host = "*." + host
		}
		n.dns = append(n.dns, host)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the addresses of this machine: %w", err)
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			n.ips = append(n.ips, prefix.Addr().Unmap())
		}
	}
	slices.Sort(n.dns)
	n.dns = slices.Compact(n.dns)
	slices.SortFunc(n.ips, netip.Addr.Compare)
	n.ips = slices.Compact(n.ips)
	return n, nil
}

// of reports whether a certificate has exactly these names.
func (n *names) of(cert *x509.Certificate) bool {
	ips := make([]netip.Addr, 0, len(cert.IPAddresses))
	for _, ip := range cert.IPAddresses {
		addr, _ := netip.AddrFromSlice(ip)
		ips = append(ips, addr.Unmap())
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Equal(n.ips, ips) && slices.Equal(n.dns, slices.Sorted(slices.Values(cert.DNSNames)))
}

// ensureServing reads the server's certificate, or makes it where there is none,
// or it is another CA's, is not valid yet, is near its end or names another machine.
func (c *Credentials) ensureServing() error {
	cert, key, err := readPair(c.path(serverCrt), c.path(serverKey))
	if err != nil {
		return err
	}
	why := "there is none"
	if cert != nil {
		why = unfit(cert, servingLife, c.opts.Now())
	}
	switch {
	case why != "":
	case cert.CheckSignatureFrom(c.authority.Load().cert) != nil:
		why = "it is of another CA"
	case !c.names.of(cert):
		why = "the names or addresses of this machine have changed"
	default:
		c.serving.Store(&tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert})
		return nil
	}
	c.opts.Logger.Info("making a server certificate", "because", why, "names", c.names.dns, "addresses", c.names.ips)
	return c.issueServing()
}

func (c *Credentials) issueServing() error {
	now, authority := c.opts.Now(), c.authority.Load()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "glowplug"},
		NotBefore:    now.Add(-headStart),
		NotAfter:     earlier(now.Add(servingLife), authority.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     c.names.dns,
	}
	for _, ip := range c.names.ips {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	}
	cert, key, err := issue(template, authority, c.path(serverCrt), c.path(serverKey))
	if err != nil {
		return err
	}
	c.serving.Store(&tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert})
	return nil
}

// current is the server's certificate, renewed first where it, or the CA, is not fit
// for use. Where that fails the old one is still better than none.
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

func (c *Credentials) fit() bool {
	now := c.opts.Now()
	return unfit(c.authority.Load().cert, authorityLife, now) == "" && unfit(c.serving.Load().Leaf, servingLife, now) == ""
}

// renew makes the server's certificate anew, and before it the CA's where need be.
func (c *Credentials) renew() error {
	if err := c.prolongAuthority(c.opts.Now()); err != nil {
		return err
	}
	if err := c.refreshAdmin(); err != nil {
		return err
	}
	c.opts.Logger.Info("renewing the server certificate", "end", c.serving.Load().Leaf.NotAfter)
	return c.issueServing()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
