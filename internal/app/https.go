package app

import (
	"net"
	"net/netip"
	"net/url"

	"glowplug/internal/credentials"
	"glowplug/internal/option"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/machine"
)

// checkHTTPS checks the options of configs over HTTPS alone.
func checkHTTPS(s *settings) error {
	switch {
	case !s.Boot.ConfigsOverHTTPS:
		return nil
	case s.Listeners.ListenTLS == "":
		return option.Bad("configs-over-https", "needs HTTPS, and --listen-tls is empty")
	case s.Access.AllowInsecureAPI:
		return option.Bad("configs-over-https", "with --allow-insecure-api the API sends configs over plain HTTP")
	}
	if u, err := url.Parse(s.Boot.HTTPURL); err == nil && u.Scheme == "http" && u.Path != "" {
		return option.Bad("http-url", "has a path: with --configs-over-https, give the URL over HTTPS")
	}
	if err := s.checkHTTPSAddresses(); err != nil {
		return err
	}
	for _, name := range s.httpsNames() {
		if _, _, err := credentials.ParseName(name); err != nil {
			return option.Bad("http-url", "no certificate can have its name, which --configs-over-https needs: %v", err)
		}
	}
	return nil
}

// checkHTTPSAddresses checks that HTTPS is served at each address at which plain HTTP is, unless machines have a
// URL of the server.
func (s *settings) checkHTTPSAddresses() error {
	secure, _, _ := net.SplitHostPort(s.Listeners.ListenTLS)
	if s.Boot.HTTPURL != "" || isWildcard(secure) {
		return nil
	}
	for _, address := range s.Listeners.Listen {
		if plain, _, _ := net.SplitHostPort(address); plain != secure {
			return option.Bad("configs-over-https", "HTTPS is not served at the address of --listen %s: change"+
				" --listen-tls %s, or set --http-url", address, s.Listeners.ListenTLS)
		}
	}
	return nil
}

func isWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

// httpsNames returns the name or address by which machines reach the server over HTTPS, if it is an option:
// the server's certificate needs it.
func (s *settings) httpsNames() []string {
	if !s.Boot.ConfigsOverHTTPS || s.Boot.HTTPURL == "" {
		return nil
	}
	u, err := url.Parse(s.Boot.HTTPURL)
	if err != nil {
		return nil // checkBoot has refused it
	}
	return []string{u.Hostname()}
}

// configsOverHTTPS returns how machines receive their configs over HTTPS alone; nil: over plain HTTP, too.
func configsOverHTTPS(a *App) *machine.HTTPS {
	s := a.settings
	if !s.Boot.ConfigsOverHTTPS {
		return nil
	}
	h := &machine.HTTPS{Authorities: a.creds.Authorities, Verify: a.creds.Verify, Local: api.IsAdmin}
	if u, err := url.Parse(s.Boot.HTTPURL); err == nil && u.Scheme == "https" { // which is lower case
		h.URL = s.Boot.HTTPURL
	}
	for _, name := range s.httpsNames() {
		h.Host = name
	}
	if d := a.listeners.named("https"); d != nil {
		h.Port = uint16(d.listener.Addr().(*net.TCPAddr).Port)
	}
	return h
}
