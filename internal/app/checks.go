package app

import (
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"glowplug/internal/credentials"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/egress"
	"glowplug/internal/image/download"
	"glowplug/internal/option"
)

// checkAddress checks an address to listen on.
func checkAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return option.Bad(flag, "%q is not an address: want host:port or :port", address)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > math.MaxUint16) {
		return option.Bad(flag, "%q: there is no port %s", address, port)
	}
	return nil
}

// checkListen checks the options of the listeners.
func (s *settings) checkListen() error {
	if len(s.Listeners.Listen) == 0 && s.Listeners.ListenTLS == "" {
		return option.Bad("listen", "is empty and so is --listen-tls: nothing would be served")
	}
	for _, address := range s.Listeners.Listen {
		if err := checkAddress("listen", address); err != nil {
			return err
		}
	}
	for flag, address := range map[string]string{"listen-tls": s.Listeners.ListenTLS, "metrics-listen": s.Listeners.MetricsListen} {
		if address == "" {
			continue
		}
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	for _, name := range s.Listeners.TLSSANs {
		if _, _, err := credentials.ParseName(name); err != nil {
			return option.Bad("tls-san", "%v", err)
		}
	}
	for flag, path := range map[string]string{
		"token-auth-file": s.Access.TokenAuthFile, "authentication-config": s.Access.AuthenticationConfig,
	} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return option.Bad(flag, "%v", err)
		}
	}
	switch {
	case s.Listeners.TLSCert != "" && s.Listeners.TLSKey == "":
		return option.Bad("tls-private-key-file", "is empty, and --tls-cert-file is not: both are needed")
	case s.Listeners.TLSCert == "" && s.Listeners.TLSKey != "":
		return option.Bad("tls-cert-file", "is empty, and --tls-private-key-file is not: both are needed")
	}
	if s.Listeners.AdminListen != "" {
		return checkAdmin(s.Listeners.AdminListen)
	}
	return nil
}

// checkManifests checks that the manifests are there.
func (s *settings) checkManifests() error {
	for _, p := range s.Manifests {
		if _, err := os.Stat(p); err != nil {
			return option.Bad("manifests", "%v", err)
		}
	}
	return nil
}

// checkNetworks parses the options about trusted proxies and fetching.
func (s *settings) checkNetworks() error {
	for _, p := range s.Access.TrustedProxies {
		prefix, err := netaddr.ParsePrefix(p)
		if err != nil {
			return option.Bad("trusted-proxies", "%v", err)
		}
		s.proxies = append(s.proxies, prefix)
	}
	var err error
	if s.allowFetch, err = egress.Listed("--allow-fetch", s.Access.AllowFetch); err != nil {
		return option.Bad("allow-fetch", "%v", err)
	}
	if s.allowImages, err = egress.PublicAnd("--allow-image-fetch", s.Images.AllowImageFetch); err != nil {
		return option.Bad("allow-image-fetch", "%v", err)
	}
	return nil
}

// checkLimits checks the limits of connections.
func (s *settings) checkLimits() error {
	if s.Limits.MaxConnections < 1 {
		return option.Bad("max-connections", "must be at least 1")
	}
	if s.Limits.MaxConnectionsPerSource < 0 {
		return option.Bad("max-connections-per-source", "must be at least 0")
	}
	if s.Limits.MaxRequestsPerSource < 0 {
		return option.Bad("max-requests-per-source", "must be at least 0")
	}
	return nil
}

// checkHistory parses the limits of the history of boots.
func (s *settings) checkHistory() (err error) {
	s.keepBoots, err = s.History.limits()
	return err
}

// checkBoot parses the options of the boot path.
func (s *settings) checkBoot() (err error) {
	if err := checkAddress("iscsi-listen", s.Boot.ISCSIListen); err != nil {
		return err
	}
	if s.Images.Keyring != "" {
		if s.keyring, err = download.ReadKeyring(s.Images.Keyring); err != nil {
			return option.Bad("keyring", "%v", err)
		}
	}
	if s.Boot.ISCSIPortal != "" {
		s.portalHost, s.portalPort = ipxe.ParsePortal(s.Boot.ISCSIPortal)
		_, ipErr := netaddr.ParseIP(s.portalHost)
		if _, err := netaddr.ParseHostname(s.portalHost); err != nil && ipErr != nil {
			return option.Bad("iscsi-portal", "%q is not an address with an optional port", s.Boot.ISCSIPortal)
		}
	}
	if s.Boot.HTTPURL == "" {
		return nil
	}
	s.Boot.HTTPURL = strings.TrimSuffix(s.Boot.HTTPURL, "/")
	u, err := url.Parse(s.Boot.HTTPURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return option.Bad("http-url", "not a URL such as http://192.168.10.2:8082")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return option.Bad("http-url", "has more than scheme, host and path: want a URL such as http://192.168.10.2:8082")
	}
	if _, err := ipxe.Boot(s.Boot.HTTPURL); err != nil {
		return option.Bad("http-url", "%v", err)
	}
	return nil
}
