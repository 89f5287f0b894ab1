package app

import (
	"net"
	"net/url"
	"strings"

	"glowplug/internal/credentials"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/machine"
)

// checkHTTPS checks the options of configs over HTTPS alone.
func checkHTTPS(s *settings) error {
	switch {
	case !s.ConfigsOverHTTPS:
		return nil
	case s.ListenTLS == "":
		return bad("configs-over-https", "needs HTTPS, and --listen-tls is empty")
	}
	for _, name := range s.httpsNames() {
		if _, _, err := credentials.ParseName(name); err != nil {
			return bad("http-url", "no certificate can have its name, which --configs-over-https needs: %v", err)
		}
	}
	return nil
}

// httpsNames returns the name or address by which machines reach the server over HTTPS, if it is an option:
// the server's certificate needs it.
func (s *settings) httpsNames() []string {
	if !s.ConfigsOverHTTPS || s.HTTPURL == "" {
		return nil
	}
	u, err := url.Parse(s.HTTPURL)
	if err != nil {
		return nil // checkBoot has refused it
	}
	return []string{u.Hostname()}
}

// configsOverHTTPS returns how machines receive their configs over HTTPS alone; nil: over plain HTTP, too.
func configsOverHTTPS(a *App) *machine.HTTPS {
	s := a.settings
	if !s.ConfigsOverHTTPS {
		return nil
	}
	h := &machine.HTTPS{Authorities: a.creds.Authorities, Local: api.IsAdmin}
	if strings.HasPrefix(s.HTTPURL, "https://") {
		h.URL = s.HTTPURL
	}
	for _, name := range s.httpsNames() {
		h.Host = name
	}
	for _, d := range a.doors {
		if d.name == "https" {
			h.Port = uint16(d.listener.Addr().(*net.TCPAddr).Port)
		}
	}
	return h
}
