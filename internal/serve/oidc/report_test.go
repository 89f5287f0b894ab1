package oidc

import (
	"strings"
	"testing"
	"time"

	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// TestIssuerThatComesLater: the tokens of an issuer that does not answer are refused until it does, without
// a restart. The log says so once, with the issuer and a remedy, and says when it answers.
func TestIssuerThatComesLater(t *testing.T) {
	issuer := oidctest.New(t)
	issuer.Down.Store(true)
	issuers, logged := open(t, oidctest.File(issuer.Entry("")))
	s := (*issuers.current.Load())[0]
	testkit.Until(t, "the issuer is asked", func() bool { return s.fetcher.problem() != nil })
	for range 20 {
		if who := userOf(t, issuers, issuer.Token(t, nil)); who != nil {
			t.Fatalf("the issuer is down: %v", who)
		}
	}
	now := time.Now()
	for range 20 {
		now = now.Add(reportInterval)
		issuers.report(now)
	}
	if n := strings.Count(logged(), "gives no keys"); n != 1 || strings.Count(logged(), "\n") != 1 ||
		!strings.Contains(logged(), issuer.URL) || !strings.Contains(logged(), "503") ||
		!strings.Contains(logged(), "certificateAuthority") {
		t.Errorf("%d lines:\n%s", n, logged())
	}
	issuers.report(now.Add(reportPause))
	if n := strings.Count(logged(), "gives no keys"); n != 2 {
		t.Errorf("%d lines after a long time", n)
	}

	issuer.Down.Store(false)
	testkit.Until(t, "the issuer is used", func() bool { return userOf(t, issuers, issuer.Token(t, nil)) != nil })
	issuers.report(now.Add(reportPause))
	issuers.report(now.Add(reportPause))
	if n := strings.Count(logged(), "answers again"); n != 1 {
		t.Errorf("%d lines that it answers:\n%s", n, logged())
	}
}

// TestNewIssuersHaveTimeToAnswer: nothing is logged of an issuer that has just begun.
func TestNewIssuersHaveTimeToAnswer(t *testing.T) {
	issuer := oidctest.New(t)
	issuer.Down.Store(true)
	issuers, logged := open(t, oidctest.File(issuer.Entry("")))
	issuers.report(time.Now())
	if logged() != "" {
		t.Error(logged())
	}
}
