package oidc

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/serve/oidc/oidctest"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// Started by imported packages for the life of the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
}

// open opens a file for the time of the test; logged returns what has been logged.
func open(t *testing.T, content string) (issuers *Issuers, logged func() string) {
	t.Helper()
	log, logged := logstest.Logger()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	issuers, err := Open(ctx, write(t, content), log, log)
	if err != nil {
		t.Fatal(err)
	}
	return issuers, logged
}

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// userOf returns the user of a token; nil: it is refused.
func userOf(t *testing.T, issuers *Issuers, token string) user.Info {
	t.Helper()
	response, ok, err := issuers.AuthenticateToken(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return response.User
}

// ready waits until all issuers have answered.
func ready(t *testing.T, issuers *Issuers) {
	t.Helper()
	issuers.await(*issuers.current.Load())
	for _, s := range *issuers.current.Load() {
		if err := s.tokens.HealthCheck(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTokensOfAnIssuer: a valid token makes a user with the names that the file says, and any other
// token is refused, without a trace of it in the log.
func TestTokensOfAnIssuer(t *testing.T) {
	issuer, other := oidctest.New(t), oidctest.New(t)
	issuers, logged := open(t, oidctest.File(issuer.Entry(
		"userValidationRules:\n- expression: \"user.username != 'oidc:eve'\"\n  message: eve is not welcome\n")))
	ready(t, issuers)
	lasting := issuer.Token(t, nil)
	for name, test := range map[string]struct {
		token string
		want  string // the reason in the log; "": the token is valid
	}{
		"RS256":               {issuer.Token(t, nil), ""},
		"ES256":               {issuer.ECToken(t, nil), ""},
		"another audience":    {issuer.Token(t, map[string]any{"aud": "other"}), "expected audience"},
		"expired":             {issuer.Token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "expired"},
		"not valid yet":       {issuer.Token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not before"},
		"another key":         {issuer.StrangersToken(t, "rsa"), "failed to verify"},
		"an unknown key":      {issuer.StrangersToken(t, "x"), "failed to verify"},
		"another signature":   {lasting[:strings.LastIndex(lasting, ".")+1] + "AAAA", "failed to verify"},
		"the user is refused": {issuer.Token(t, map[string]any{"sub": "eve"}), "eve is not welcome"},
		"no user":             {issuer.Token(t, map[string]any{"sub": 7}), "unmarshal claims"},
		"signed by another":   {other.Token(t, map[string]any{"iss": issuer.URL}), "failed to verify"},
		"another issuer":      {other.Token(t, nil), "-"},
		"no JWT":              {"secret", "-"},
		"a broken JWT":        {"a.b.c", "-"},
	} {
		before := len(logged())
		who := userOf(t, issuers, test.token)
		line := logged()[before:]
		if (who != nil) != (test.want == "") {
			t.Errorf("%s: %v %s", name, who, line)
		}
		if who != nil && (who.GetName() != "oidc:ann" || !slices.Equal(who.GetGroups(), []string{"oidc:ops"})) {
			t.Errorf("%s: %v", name, who)
		}
		if test.want != "" && test.want != "-" && (!strings.Contains(line, test.want) || !strings.Contains(line, issuer.URL)) {
			t.Errorf("%s: the log has no %q: %s", name, test.want, line)
		}
		for _, part := range strings.Split(test.token, ".")[1:] {
			if strings.Contains(line, part) && len(part) > 4 {
				t.Errorf("%s: a part of the token is logged: %s", name, line)
			}
		}
	}
}

// TestClaimsAreMappedByExpressions: claimMappings may have expressions in CEL.
func TestClaimsAreMappedByExpressions(t *testing.T) {
	issuer := oidctest.New(t)
	issuers, logged := open(t, oidctest.File(issuer.Entry(`claimMappings:
  username: {expression: "'corp:' + claims.email.split('@')[0]"}
  groups: {expression: "['all', 'team-' + claims.team]"}
  uid: {claim: sub}
claimValidationRules:
- expression: claims.email_verified == true
`)))
	ready(t, issuers)
	claims := map[string]any{"email": "ann@example.com", "email_verified": true, "team": "a"}
	who := userOf(t, issuers, issuer.Token(t, claims))
	if who == nil || who.GetName() != "corp:ann" || who.GetUID() != "ann" ||
		!slices.Equal(who.GetGroups(), []string{"all", "team-a"}) {
		t.Errorf("%v\n%s", who, logged())
	}
	claims["email_verified"] = false
	if who := userOf(t, issuers, issuer.Token(t, claims)); who != nil {
		t.Errorf("a claim is not validated: %v", who)
	}
}

// TestIssuersMakeNoUsersOfTheSystem: an issuer without prefixes, whose claims are those of administrators
// and ServiceAccounts, makes none.
func TestIssuersMakeNoUsersOfTheSystem(t *testing.T) {
	issuer := oidctest.New(t)
	issuers, logged := open(t, oidctest.File(issuer.Entry(
		"claimMappings:\n  username: {claim: sub, prefix: ''}\n  groups: {claim: groups, prefix: ''}\n")))
	ready(t, issuers)
	for _, test := range []struct {
		name   string
		groups []string
		want   bool
	}{
		{"ann", []string{"ops"}, true},
		{"ann", []string{"system:authenticated"}, true},
		{"ann", []string{"ops", "system:masters"}, false},
		{"ann", []string{"system:serviceaccounts:g10"}, false},
		{"ann", []string{"system:nodes"}, false},
		{"system:admin", nil, false},
		{"system:serviceaccount:g10:builder", nil, false},
		{"system:node:a", nil, false},
	} {
		before := len(logged())
		token := issuer.Token(t, map[string]any{"sub": test.name, "groups": test.groups})
		if who := userOf(t, issuers, token); (who != nil) != test.want {
			t.Errorf("%s %v: %v", test.name, test.groups, who)
		}
		if line := logged()[before:]; !test.want &&
			(!strings.Contains(line, "begins with") || !strings.Contains(line, issuer.URL) || strings.Contains(line, token)) {
			t.Errorf("%s %v: the log: %s", test.name, test.groups, line)
		}
	}
}

// TestUnchangedIssuersContinue: a change of the file concerns the changed issuers alone. They are asked
// before their users are, and removed ones are not asked any more.
func TestUnchangedIssuersContinue(t *testing.T) {
	kept, changed, removed := oidctest.New(t), oidctest.New(t), oidctest.New(t)
	issuers, _ := open(t, oidctest.File(kept.Entry(""), changed.Entry(""), removed.Entry("")))
	ready(t, issuers)
	former := *issuers.current.Load()
	mapped := "claimMappings:\n  username: {claim: sub, prefix: 'new:'}\n"
	configs, err := parse([]byte(oidctest.File(changed.Entry(mapped), kept.Entry(""))), issuers.compiler)
	if err != nil {
		t.Fatal(err)
	}
	kept.Down.Store(true)
	if err := issuers.apply(configs); err != nil {
		t.Fatal(err)
	}
	current := *issuers.current.Load()
	if len(current) != 2 || current[1] != former[0] {
		t.Error("an issuer that has not changed began again")
	}
	if who := userOf(t, issuers, changed.Token(t, nil)); who == nil || who.GetName() != "new:ann" {
		t.Errorf("a changed issuer: %v", who)
	}
	if who := userOf(t, issuers, removed.Token(t, nil)); who != nil {
		t.Errorf("a removed issuer: %v", who)
	}
	for _, old := range former[1:] {
		if _, _, err := old.tokens.AuthenticateToken(t.Context(), removed.Token(t, nil)); old.config.Issuer.URL ==
			removed.URL && err == nil {
			t.Error("a removed issuer is asked for its keys")
		}
	}
}

// TestOpenDoesNotWait: an issuer that cannot be reached does not delay the start.
func TestOpenDoesNotWait(t *testing.T) {
	issuer := oidctest.New(t)
	issuer.Down.Store(true)
	log := slog.New(slog.DiscardHandler)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Open(ctx, write(t, oidctest.File(issuer.Entry(""))), log, log); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took >= fetchTimeout {
		t.Errorf("the start took %s", took)
	}
}
