package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/egress"
	"glowplug/internal/version"
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

// get opens what a URL names. Its answer is final, whatever it is.
func (f *fetcher) get(ctx context.Context, client *http.Client, u *url.URL, header http.Header) (io.ReadCloser, error) {
	ctx, cancel := f.within(ctx)
	resp, err := f.ask(ctx, client, u.String(), header, 0)
	if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent {
		_ = resp.Body.Close()
		err = failf(Failed, "the server answered %s", statusText(resp.StatusCode))
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &body{resp.Body, cancel}, nil
}

// within bounds the time of a transfer.
func (f *fetcher) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.settings.total > 0 {
		return context.WithTimeout(ctx, f.settings.total)
	}
	return ctx, func() {}
}

// ask sends a request until there is an answer: no answer and one of 500 or above are followed
// by a pause and another try, of which there are at most tries; 0: as many as the time allows.
func (f *fetcher) ask(ctx context.Context, client *http.Client, at string, header http.Header, tries int) (
	*http.Response, error,
) {
	last := ""
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return nil, failf(Invalid, "it is no URL that can be fetched")
		}
		req.Header = header.Clone()
		resp, err := client.Do(req)
		switch {
		case err == nil && resp.StatusCode < 500:
			return resp, nil
		case err == nil:
			_ = resp.Body.Close()
			last = "the server answered " + statusText(resp.StatusCode)
		case isFinal(err):
			return nil, err
		case ctx.Err() == nil:
			last = plain(err)
		}
		if tries--; tries == 0 {
			return nil, failf(Failed, "it cannot be fetched: %s", last)
		}
		if err := f.pause(ctx, pause); err != nil {
			return nil, timedOut(last)
		}
	}
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
	return strconv.Itoa(code) + " " + cmp.Or(http.StatusText(code), "(unknown)")
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
// server is not used. The list of allowed addresses holds for a proxy, too.
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

// client is the Ignition that a config is rendered for.
type client struct {
	// spec is the newest version that it reads.
	spec string
	// release is of Ignition, as its User-Agent names it, and accept its Accept header.
	release, accept string
	// keepsHeader is true for the line of spec 2, which sends its own defaults again
	// after a redirect; the line of spec 3 sends no header of a request on.
	keepsHeader bool
}

// clientOf is the client that reads up to a spec version, as the releases of Ignition
// present themselves.
func clientOf(spec string) client {
	c := client{spec: spec, release: releases[spec]}
	if !strings.HasPrefix(spec, "2.") {
		c.accept = ignition.MediaType + ";version=" + spec + ", */*;q=0.1"
		return c
	}
	c.keepsHeader = true
	c.release = cmp.Or(c.release, "v0.35.0") // it reads 2.4.0
	named := "2.2.0"                         // no release names a higher version in its header
	switch spec {
	case "2.0.0", "2.1.0":
		named = spec
	case "2.2.0-experimental":
		named = "2.1.0"
	}
	c.accept = ignition.MediaType + "; version=" + named + ", " + ignition.MediaType + "; version=1; q=0.5, */*; q=0.1"
	return c
}

// releases has the last release of Ignition that reads up to a version.
var releases = map[string]string{
	"2.0.0": "v0.16.0", "2.1.0": "v0.21.0", "2.2.0-experimental": "v0.19.0", "2.2.0": "v0.22.0",
	"3.0.0": "2.2.0", "3.1.0": "2.6.0", "3.2.0": "2.10.0", "3.3.0": "2.14.0", "3.4.0": "2.19.0", "3.5.0": "2.25.0",
	"3.6.0": "2.26.0",
}

// header has what Ignition sends by default. The name of this program is behind that of the
// release, for the logs of the server that is asked.
func (c client) header() http.Header {
	return http.Header{
		"Accept":          {c.accept},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"Ignition/" + c.release + " (glowplug/" + version.Version + ")"},
	}
}
