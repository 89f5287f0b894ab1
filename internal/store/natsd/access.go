package natsd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"glowplug/internal/keyfile"
)

// Access names the files by which an external server knows us, and we it. They are
// read at each connection, so that what they hold may be exchanged.
type Access struct {
	// Creds is a credentials file of NATS: a user's JWT and the seed of its key.
	Creds string
	// UserFile and PasswordFile hold a line each.
	UserFile, PasswordFile string
	// CAFile holds the CAs, in PEM, that the server's certificate has to be signed by;
	// empty: those of the system. With it a connection without TLS is refused.
	CAFile string
	// CertFile and KeyFile are our own certificate and its key, in PEM.
	CertFile, KeyFile string
}

// Options are those of a connection; an error names the file that is no good.
func (a Access) Options(logger *slog.Logger) ([]nats.Option, error) {
	var options []nats.Option
	if a.Creds != "" {
		if _, err := keyfile.Read(keyfile.Secret, a.Creds); err != nil {
			return nil, err
		}
		options = append(options, nats.UserCredentials(a.Creds))
	}
	if a.UserFile != "" {
		if _, _, err := a.user(); err != nil {
			return nil, err
		}
		options = append(options, nats.UserInfoHandler(func() (string, string) {
			user, password, err := a.user()
			if err != nil {
				logger.Error("the user and password for NATS cannot be read", "error", err)
			}
			return user, password
		}))
	}
	if a.CAFile != "" {
		data, err := keyfile.Read(keyfile.Trusted, a.CAFile)
		if err != nil {
			return nil, err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no PEM certificate", a.CAFile)
		}
		options = append(options, nats.RootCAs(a.CAFile))
	}
	if a.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile); err != nil {
			return nil, fmt.Errorf("%s with the key %s: %w", a.CertFile, a.KeyFile, err)
		}
		options = append(options, nats.ClientCert(a.CertFile, a.KeyFile))
	}
	return options, nil
}

func (a Access) user() (user, password string, err error) {
	if user, err = keyfile.ReadLine(a.UserFile); err != nil {
		return "", "", err
	}
	password, err = keyfile.ReadLine(a.PasswordFile)
	return user, password, err
}

// HoldsSecret reports whether a list of URLs has a password or a token in it.
func HoldsSecret(urls string) bool {
	for text := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			return true
		}
	}
	return false
}

// Redacted is a list of URLs without their passwords and tokens.
func Redacted(urls string) string {
	parts := strings.Split(urls, ",")
	for i, text := range parts {
		u, err := url.Parse(text)
		if err != nil {
			parts[i] = "(not a URL)"
			continue
		}
		if _, password := u.User.Password(); u.User != nil && !password {
			u.User = url.User("xxxxx") // a token is in the place of a user
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, ",")
}

// isRefusal reports whether a server does not take our user.
func isRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked)
}

// maxFailures bounds the reasons that are logged between two connections.
const maxFailures = 16

// failures logs why servers cannot be connected to, once for each reason between two
// connections. The connection calls it from one goroutine.
type failures struct {
	log    *slog.Logger
	logged []string
}

func (f *failures) add(err error) {
	if err == nil || len(f.logged) == maxFailures || slices.Contains(f.logged, err.Error()) {
		return
	}
	f.logged = append(f.logged, err.Error())
	f.log.Warn("NATS cannot be connected to", "error", err)
}
