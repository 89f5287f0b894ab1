package remote

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"glowplug/internal/domain/ignition"
)

const (
	// headerTimeout is how long a server may take to begin its answer, where no config
	// says otherwise.
	headerTimeout = 10 * time.Second
	// handshakeTimeout bounds the TLS handshake.
	handshakeTimeout = 10 * time.Second
	// maxTimeout bounds what a config sets, in seconds.
	maxTimeout = 3600
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

// settings are how requests are made; a config that is fetched may change them for
// those that are fetched after it.
type settings struct {
	headers, total time.Duration
	proxy          func(*url.URL) (*url.URL, error)
	authorities    *x509.CertPool // nil: the system's
}

// use takes over the settings of a config, as Ignition does at the same points: the
// timeouts and the proxy are the config's, or the defaults; the authorities stay where
// a config has none. They are fetched with the new timeouts and the new proxy.
func (s *session) use(ctx context.Context, f *ignition.Fetching) error {
	s.settings.headers, s.settings.total = headerTimeout, 0
	if f.ResponseHeaders != nil {
		s.settings.headers = seconds(*f.ResponseHeaders)
	}
	if f.Total != nil {
		s.settings.total = seconds(*f.Total)
	}
	proxy := httpproxy.Config{HTTPProxy: f.HTTPProxy, HTTPSProxy: f.HTTPSProxy, NoProxy: strings.Join(f.NoProxy, ",")}
	s.settings.proxy = proxy.ProxyFunc()
	if len(f.Authorities) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return failf(Failed, "the system's certificate authorities cannot be read: %v", err)
	}
	for i := range f.Authorities {
		ref := &f.Authorities[i]
		bundle, err := s.authority(ctx, ref)
		if err != nil {
			return err
		}
		if err := addBundle(pool, bundle); err != "" {
			return failf(Invalid, "%s: the bundle of certificate authorities %s", redact(ref.Source), err)
		}
	}
	s.settings.authorities = pool
	return nil
}

// seconds reads a timeout; what is not above 0 is none.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), maxTimeout)) * time.Second
}

// authority returns a bundle of certificates, which is fetched once.
func (s *session) authority(ctx context.Context, ref *ignition.Reference) ([]byte, error) {
	if bundle, ok := s.bundles[ref.Source]; ok {
		return bundle, nil
	}
	bundle, err := s.fetch(ctx, ref)
	if err != nil {
		return nil, withChain(append(s.chain, redact(ref.Source)), err)
	}
	s.bundles[ref.Source] = bundle
	return bundle, nil
}

// addBundle adds every certificate of a PEM bundle; problem says what is wrong with it.
func addBundle(pool *x509.CertPool, bundle []byte) (problem string) {
	for len(bundle) > 0 {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return "is not PEM from its beginning to its end"
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "holds what is no certificate: " + err.Error()
		}
		pool.AddCert(cert)
		bundle = rest
	}
	return ""
}
