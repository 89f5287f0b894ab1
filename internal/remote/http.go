package remote

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/egress"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxRedirects bounds the redirects of one request; Ignition has no bound.
	maxRedirects = 10
)

// fetchHTTP opens what an http or https URL names.
func (f *fetcher) fetchHTTP(ctx context.Context, ref *ignition.Reference, u *url.URL) (io.ReadCloser, error) {
	header := f.client.header()
	defaults := header.Clone()
	for _, h := range ref.Headers {
		switch {
		case !httpguts.ValidHeaderFieldName(h.Name):
			return nil, failf(Invalid, "a header's name is no token")
		case h.Value == "":
			return nil, failf(Invalid, "the header %s has no value", h.Name)
		case !httpguts.ValidHeaderFieldValue(h.Value):
			return nil, failf(Invalid, "the value of the header %s cannot be sent", h.Name)
		}
		// Ignition sends the last of several; a list is one value with commas in it.
		header.Set(h.Name, h.Value)
	}
	client := &http.Client{Transport: f.transport(), CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return failf(Failed, "it redirects more than %d times", maxRedirects)
		}
		if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
			return failf(Failed, "it redirects to what is neither http nor https")
		}
		req.Header = http.Header{}
		if f.client.keepsHeader {
			req.Header = defaults.Clone()
		}
		return nil
	}}
	return f.get(ctx, client, u, header)
}

// get asks until there is an answer: no answer and one of 500 or above are followed by
// a pause and another try. Any other answer is final.
func (f *fetcher) get(ctx context.Context, client *http.Client, u *url.URL, header http.Header) (io.ReadCloser, error) {
	cancel := context.CancelFunc(func() {})
	if f.settings.total > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.settings.total)
	}
	last := ""
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			cancel()
			return nil, failf(Invalid, "it is no URL that can be fetched")
		}
		req.Header = header.Clone()
		resp, err := client.Do(req)
		switch {
		case err == nil && resp.StatusCode < 500:
			return answer(resp, cancel)
		case err == nil:
			_ = resp.Body.Close()
			last = "the server answered " + statusText(resp.StatusCode)
		case isFinal(err):
			cancel()
			return nil, err
		case ctx.Err() == nil:
			last = plain(err)
		}
		if err := f.pause(ctx, pause); err != nil {
			cancel()
			return nil, timedOut(last)
		}
	}
}

// answer returns the body of a final answer.
func answer(resp *http.Response, cancel context.CancelFunc) (io.ReadCloser, error) {
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent {
		return &body{resp.Body, cancel}, nil
	}
	_ = resp.Body.Close()
	cancel()
	return nil, failf(Failed, "the server answered %s", statusText(resp.StatusCode))
}

// body ends what its request or transfer holds when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// timedOut returns the error when the time is over; last says what the last try failed
// with.
func timedOut(last string) *Error {
	if last == "" {
		return failf(TimedOut, "there was no answer in time")
	}
	return failf(TimedOut, "it could not be fetched in time, and a machine would go on trying: %s", last)
}

func statusText(code int) string {
	text := http.StatusText(code)
	if text == "" {
		text = "(unknown)"
	}
	return strconv.Itoa(code) + " " + text
}

// sleep waits; the error is the context's.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transport carries requests by the settings as they stand. Its connections are not
// kept: the next request may be made by others.
func (f *fetcher) transport() http.RoundTripper {
	t := &http.Transport{
		DialContext:            f.dial,
		ResponseHeaderTimeout:  f.settings.headers,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
		Proxy:                  f.proxy(f.settings.proxy),
	}
	if f.settings.authorities != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: f.settings.authorities}
	}
	return egress.OnBehalf(t)
}

// dial connects to what may be fetched from.
func (f *fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := f.dialer.Dial(ctx, network, address)
	return conn, asRefused(err)
}

// proxy chooses the proxy of a request by what configs say. The environment of the
// server is not asked. What a proxy connects to is held against the list, too.
func (f *fetcher) proxy(choose func(*url.URL) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if choose == nil {
		return nil
	}
	return func(req *http.Request) (*url.URL, error) {
		through, err := choose(req.URL)
		if err != nil {
			return nil, failf(Invalid, "the proxy is no URL")
		}
		if through == nil {
			return nil, nil
		}
		return through, asRefused(f.dialer.Policy.Behind(req.URL.Hostname()))
	}
}
