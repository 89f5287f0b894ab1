package download

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"glowplug/internal/egress"
)

const (
	// maxRedirects bounds the redirects of one request.
	maxRedirects = 10
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

// NewHTTPClient is for a command, which runs as whoever gives it: it asks every server,
// through the proxies of the environment. The body of an answer may take as long as it
// goes on coming; conns are kept for the next request.
func NewHTTPClient(conns int) *http.Client {
	return &http.Client{Transport: newTransport(conns), CheckRedirect: checkRedirect}
}

// NewGuardedClient is for the server, which asks for whoever has written a URL: it
// connects to what a policy allows. The proxies of the environment are not used, since
// they would connect for it, to what nobody has checked.
func NewGuardedClient(policy egress.Policy, conns int) *http.Client {
	t := newTransport(conns)
	t.Proxy, t.DialContext = nil, egress.NewDialer(policy).Dial
	return &http.Client{Transport: guarded{egress.OnBehalf(t)}, CheckRedirect: checkRedirect}
}

func newTransport(conns int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true
	t.MaxIdleConns = conns
	return t
}

// guarded names no place that a server redirects to.
type guarded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(req)
	var refused *egress.RefusedError
	if req.Response != nil && errors.As(err, &refused) {
		err = refused.Redirected()
	}
	return resp, err
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return Permanent("it redirects more than %d times", maxRedirects)
	}
	if !isWeb(req.URL) {
		return Permanent("it redirects to what is neither http nor https")
	}
	req.Header.Del("Referer") // a URL's query may be a secret
	return nil
}

func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }
