package oidc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/cert"
)

const (
	// fetchTimeout is how long an issuer may take for one answer.
	fetchTimeout = 5 * time.Second
	// maxAnswer is how long an answer may be, in bytes.
	maxAnswer = 1 << 20
	// pause is how long an issuer is not asked again after it has failed.
	pause = 3 * time.Second
)

// pacedKey marks the context of the requests for the discovery document and for the keys. Those for the
// claims of one user, which a token names, have another context.
type pacedKey struct{}

func pacedContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, pacedKey{}, true)
}

// fetcher sends the requests to an issuer. It asks for keys once a second, since everybody can send
// a token with the name of a key that does not exist, and each such token is a request.
type fetcher struct {
	base http.RoundTripper
	pace *rate.Limiter

	mu      sync.Mutex
	failure error // of the last request for the discovery document or the keys
	failed  time.Time
}

// newFetcher returns a fetcher that trusts the CAs in authority, or those of the system if it is "".
func newFetcher(authority string) (*fetcher, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pool, err := cert.NewPoolFromBytes([]byte(authority))
		if err != nil {
			return nil, fmt.Errorf("issuer.certificateAuthority: %w", err)
		}
		config.RootCAs = pool
	}
	return &fetcher{
		// Without idle connections nothing is left of an issuer that is removed.
		base: &http.Transport{
			TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			DialContext: (&net.Dialer{Timeout: fetchTimeout}).DialContext,
		},
		pace: rate.NewLimiter(1, 5),
	}, nil
}

func (f *fetcher) client() *http.Client {
	return &http.Client{Transport: f, Timeout: fetchTimeout}
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not fetched: its scheme is not https", r.URL.Redacted())
	}
	if r.Context().Value(pacedKey{}) == nil {
		return f.fetch(r)
	}
	if err := f.mayAsk(time.Now()); err != nil {
		return nil, err
	}
	response, err := f.fetch(r)
	f.note(r, response, err)
	return response, err
}

// fetch returns an answer whose body was read.
func (f *fetcher) fetch(r *http.Request) (*http.Response, error) {
	response, err := f.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", r.URL.Redacted(), maxAnswer)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func (f *fetcher) mayAsk(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil && now.Sub(f.failed) < pause {
		return fmt.Errorf("the issuer is not asked again so soon: %w", f.failure)
	}
	if !f.pace.AllowN(now, 1) {
		return errors.New("the issuer is asked for its keys at most once a second")
	}
	return nil
}

// note keeps the outcome of a request, unless it was cancelled because the issuer was removed.
func (f *fetcher) note(r *http.Request, response *http.Response, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return
	}
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s answered %s", r.URL.Redacted(), response.Status)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure, f.failed = err, time.Now()
}

// problem returns why the last request failed, or nil.
func (f *fetcher) problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}
