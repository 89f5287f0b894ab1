package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/cert"

	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// TestKeysAreFetchedSlowly: tokens of strangers, each with the name of a key that does not exist, make few
// requests to the issuer. A valid token is accepted meanwhile, and a new key soon after.
func TestKeysAreFetchedSlowly(t *testing.T) {
	issuer := oidctest.New(t)
	issuers, _ := open(t, oidctest.File(issuer.Entry("")))
	ready(t, issuers)
	valid, strangers := issuer.Token(t, nil), issuer.StrangersToken(t, "unknown")
	const burst = 5
	began := time.Now()
	for range 200 {
		if who := userOf(t, issuers, strangers); who != nil {
			t.Fatalf("a stranger: %v", who)
		}
	}
	if n, most := issuer.Fetches.Load(), burst+int64(time.Since(began)/time.Second)+1; n == 0 || n > most {
		t.Errorf("%d requests, want at most %d", n, most)
	}
	if userOf(t, issuers, valid) == nil {
		t.Error("a valid token is refused meanwhile")
	}
	paced, err := newFetcher("")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i := range 1000 { // ten seconds
		if paced.mayAsk(began.Add(time.Duration(i)*10*time.Millisecond)) == nil {
			asked++
		}
	}
	if asked > burst+10 {
		t.Errorf("the issuer is asked %d times in ten seconds, want %d at most", asked, burst+10)
	}
	issuer.Rotate(t)
	testkit.Until(t, "a token with a new key is accepted", func() bool {
		return userOf(t, issuers, issuer.Token(t, nil)) != nil
	})
}

// TestIssuersAreAskedOverHTTPS: neither keys nor a redirect are taken from plain HTTP.
func TestIssuersAreAskedOverHTTPS(t *testing.T) {
	issuer := oidctest.New(t)
	issuer.Say(issuer.URL, "http"+strings.TrimPrefix(issuer.URL, "https")+"/keys")
	issuers, logged := open(t, oidctest.File(issuer.Entry("")))
	ready(t, issuers)
	if who := userOf(t, issuers, issuer.Token(t, nil)); who != nil {
		t.Errorf("the keys are from plain HTTP: %v", who)
	}
	if !strings.Contains(logged(), "its scheme is not https") {
		t.Error(logged())
	}
	var asked []string
	f := answeredBy(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		elsewhere := http.Header{"Location": {"http://issuer.example/keys"}}
		return &http.Response{StatusCode: http.StatusFound, Header: elsewhere, Body: http.NoBody}, nil
	})
	response, err := f.client().Get("https://issuer.example/keys")
	if err == nil {
		response.Body.Close()
	}
	if err == nil || !slices.Equal(asked, []string{"https://issuer.example/keys"}) {
		t.Errorf("a redirect to plain HTTP: %v, asked %q", err, asked)
	}
}

// TestIssuersHaveSecondsToAnswer: an issuer that never answers ends no request later than fetchTimeout.
func TestIssuersHaveSecondsToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := answeredBy(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://issuer.example/keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := f.client().Do(r); err == nil {
			response.Body.Close()
			t.Error("an issuer that does not answer has answered")
		}
		if took := time.Since(began); took != fetchTimeout {
			t.Errorf("the request ended after %v", took)
		}
	})
}

// TestIssuersNeedTheirCertificate: an issuer with a certificate of another CA is not believed, nor one whose
// discovery document names another issuer.
func TestIssuersNeedTheirCertificate(t *testing.T) {
	issuer, named := oidctest.New(t), oidctest.New(t)
	entry := issuer.Entry("")
	start, end := strings.Index(entry, "    certificateAuthority"), strings.Index(entry, "  claimMappings")
	named.Say("https://issuer.example", named.URL+"/keys")
	other := oidctest.New(t)
	ca, _, err := cert.GenerateSelfSignedCertKey("issuer.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	other.CA = string(ca)
	issuers, _ := open(t, oidctest.File(entry[:start]+entry[end:], named.Entry(""), other.Entry("")))
	for n, want := range []string{"x509", "issuer", "x509"} {
		s := (*issuers.current.Load())[n]
		testkit.Until(t, want, func() bool { return strings.Contains(fmt.Sprint(s.problem()), want) })
	}
	for _, i := range []*oidctest.Issuer{issuer, named, other} {
		if who := userOf(t, issuers, i.Token(t, nil)); who != nil {
			t.Errorf("%v", who)
		}
	}
}

// answers is a RoundTripper.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answeredBy returns a fetcher without a pace, whose issuer is a function.
func answeredBy(issuer answers) *fetcher {
	return &fetcher{pace: rate.NewLimiter(rate.Inf, 1), base: issuer}
}

// TestAnswersAreBounded: a long answer is refused, and an issuer that fails is left alone for a moment.
func TestAnswersAreBounded(t *testing.T) {
	asked := 0
	var failure error
	answer := &io.LimitedReader{R: zeros{}, N: 8 * maxAnswer}
	f := answeredBy(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(answer)}, failure
	})
	get := func(paced bool) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://issuer.example/keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		if paced {
			r = r.WithContext(pacedContext(t.Context()))
		}
		response, err := f.RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := get(false); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a long answer: %v", err)
	}
	if read := 8*maxAnswer - answer.N; read > maxAnswer+1 {
		t.Errorf("%d bytes of a long answer were read", read)
	}
	failure = errors.New("unreachable")
	for range 3 {
		if err := get(true); !errors.Is(err, failure) {
			t.Errorf("%v", err)
		}
	}
	if asked != 2 {
		t.Errorf("the issuer was asked %d times", asked)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
