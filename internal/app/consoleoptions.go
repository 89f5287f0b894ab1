package app

import (
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"glowplug/internal/keyfile"
	"glowplug/internal/option"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/session"
)

// Console says how users sign in to the web console with an OpenID Connect issuer.
type Console struct {
	// URL is the address of the console for browsers. Once checked it is "", or ends with the path of the console.
	URL                  string
	OIDCClientID         string
	OIDCClientSecretFile string
}

func (o *Console) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.URL, "console-url", "", "URL of the web console for browsers, as https://boot.example:8443/console/, "+
		"to which the issuer of --console-oidc-client-id leads back (default: the address at which a browser asks)")
	fs.StringVar(&o.OIDCClientID, "console-oidc-client-id", "", "client ID of the web console at an OpenID Connect "+
		"issuer of --authentication-config, the one with this client ID among its audiences; with it, users sign in there")
	fs.StringVar(&o.OIDCClientSecretFile, "console-oidc-client-secret-file", "", "file with the secret of "+
		"--console-oidc-client-id, read again for each use (default: the client has none)")
}

// checkConsole checks the options of the console, and completes its URL.
func checkConsole(s *settings) (err error) {
	c := &s.Console
	if c.URL, err = consoleURL(c.URL); err != nil {
		return err
	}
	const id = "console-oidc-client-id"
	if c.OIDCClientID == "" && c.OIDCClientSecretFile == "" {
		return nil
	}
	for _, need := range []struct {
		isThere bool
		missing string
	}{
		{c.OIDCClientID != "", "is empty, and --console-oidc-client-secret-file is not: both are needed"},
		{s.Listeners.Console, "is for the web console, which --console=false switches off"},
		{s.Access.AuthenticationConfig != "", "needs --authentication-config, the file of its issuer"},
		{c.URL != "", "needs --console-url, the address to which its issuer leads back"},
		{s.Listeners.ListenTLS != "", "needs HTTPS, and --listen-tls is empty"},
	} {
		if !need.isThere {
			return option.Bad(id, "%s", need.missing)
		}
	}
	if c.OIDCClientSecretFile == "" {
		return nil
	}
	if _, err := keyfile.ReadLine(c.OIDCClientSecretFile); err != nil {
		return option.Bad("console-oidc-client-secret-file", "%v", err)
	}
	return nil
}

// consoleURL completes the URL of a console.
func consoleURL(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	u, err := url.Parse(given)
	switch {
	case err != nil, u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "",
		u.Path != "" && u.Path != "/" && strings.TrimSuffix(u.Path, "/")+"/" != console.Prefix:
		return "", option.Bad("console-url", "%q is not a URL such as https://boot.example:8443/console/", given)
	}
	return "https://" + u.Host + console.Prefix, nil
}

// signInOIDC returns how users sign in to the console with an issuer; nil: they do not.
func signInOIDC(a *App) (*session.Client, error) {
	c := &a.settings.Console
	if c.OIDCClientID == "" {
		return nil, nil
	}
	signIn := &session.Client{ID: c.OIDCClientID, URL: c.URL, Issuers: a.api.Issuers()}
	if path := c.OIDCClientSecretFile; path != "" {
		signIn.Secret = func() (string, error) { return keyfile.ReadLine(path) }
	}
	if _, err := signIn.Issuers.IssuerFor(c.OIDCClientID); err != nil {
		return nil, option.Bad("console-oidc-client-id", "%s %v of --authentication-config", c.OIDCClientID, err)
	}
	return signIn, nil
}
