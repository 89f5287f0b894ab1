package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/tokens"
	"glowplug/internal/testkit"
)

const (
	accountPath = "/api/v1/namespaces/g10/serviceaccounts"
	tokensPath  = "/api/v1/namespaces/g10/tokens"
)

// accounts is an API with tokens of ServiceAccounts.
type accounts struct {
	*api
	tokens *tokens.Tokens
}

func startAccounts(t *testing.T) *accounts {
	t.Helper()
	stores := newStores(t)
	kept := stores[kinds.IgnitionConfigs].(followed).tokens
	return &accounts{startOn(t, stores, Listener{}, func(opts *Options) { opts.Tokens = kept }), kept}
}

func (a *accounts) admin(method, path string, body any) answer {
	a.t.Helper()
	return a.do(method, path, body, "Authorization", "Bearer admin-token")
}

// token makes a token of an account, which is created if it does not exist.
func (a *accounts) token(account string) string {
	a.t.Helper()
	a.admin(http.MethodPost, accountPath, fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`,
		account))
	got := a.admin(http.MethodPost, accountPath+"/"+account+"/token", `{}`)
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal(got.body, &request); got.code != http.StatusCreated || err != nil {
		a.t.Fatalf("%d %s", got.code, got.body)
	}
	a.await("the token is accepted", func() bool { return a.code(request.Status.Token, "/api/v1") == http.StatusOK })
	return request.Status.Token
}

func (a *accounts) code(token, path string) int {
	a.t.Helper()
	return a.do(http.MethodGet, path, nil, "Authorization", "Bearer "+token).code
}

func (a *accounts) await(what string, condition func() bool) {
	a.t.Helper()
	testkit.Until(a.t, what, condition)
}

// records returns the records of the namespace.
func (a *accounts) records() []v1.Token {
	a.t.Helper()
	var list v1.TokenList
	if err := json.Unmarshal(a.admin(http.MethodGet, tokensPath, nil).body, &list); err != nil {
		a.t.Fatal(err)
	}
	return list.Items
}

// TestRevokedTokenIsRefusedAtOnce: when the deletion of its record is answered the token is refused, its
// open watches are ended, and those of other tokens are not. The same holds for a deleted account.
func TestRevokedTokenIsRefusedAtOnce(t *testing.T) {
	a := startAccounts(t)
	first, second, other := a.token("ci"), a.token("ci"), a.token("bot")
	for _, account := range []string{"ci", "bot"} {
		a.bind("view", "system:serviceaccount:g10:"+account, "Authorization", "Bearer admin-token")
	}
	a.await("the roles are there", func() bool {
		return a.code(first, accountPath) == http.StatusOK && a.code(other, accountPath) == http.StatusOK
	})
	watched, secondWatch, otherWatch := a.watchAs(first, accountPath), a.watchAs(second, accountPath),
		a.watchAs(other, accountPath)
	name := ""
	for _, record := range a.records() {
		if record.Spec.ServiceAccountName == "ci" && name == "" && a.isRecordOf(&record, first) {
			name = record.Name
		}
	}
	if got := a.admin(http.MethodDelete, tokensPath+"/"+name, nil); got.code != http.StatusOK {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := a.code(first, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", got)
	}
	waitFor := func(what string, ended <-chan struct{}) {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(expiryInterval / 3): // the check for expired tokens would end it, too
			t.Fatalf("the watch of %s has not ended", what)
		}
	}
	waitFor("a revoked token", watched)
	if got := a.admin(http.MethodDelete, accountPath+"/ci", nil); got.code != http.StatusOK {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := a.code(second, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a token of a deleted account: %d", got)
	}
	waitFor("a deleted account", secondWatch)
	if left := a.records(); len(left) != 1 || left[0].Spec.ServiceAccountName != "bot" {
		t.Errorf("records: %v", left)
	}
	select {
	case <-otherWatch:
		t.Error("the watch of another account has ended")
	default:
	}
	if got := a.code(other, accountPath); got != http.StatusOK {
		t.Errorf("another token: %d", got)
	}
}

// isRecordOf reports whether a record is that of a token: the one whose last use changes with it.
func (a *accounts) isRecordOf(record *v1.Token, token string) bool {
	response, ok, err := a.tokens.AuthenticateToken(a.t.Context(), token)
	if err != nil || !ok {
		a.t.Fatal(err, ok)
	}
	at, _ := tokens.RecordOf(response.User)
	return at.Name == record.Name
}

// TestTokenIsShownOnce: no later answer has the token, and no log line.
func TestTokenIsShownOnce(t *testing.T) {
	a := startAccounts(t)
	token := a.token("ci")
	secret := strings.TrimPrefix(token, tokens.Prefix)
	for _, path := range []string{tokensPath, tokensPath + "/" + a.records()[0].Name, accountPath + "/ci",
		"/api/v1/tokens", "/api/v1/events"} {
		got := a.admin(http.MethodGet, path, nil)
		if got.code != http.StatusOK || strings.Contains(string(got.body), secret) {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
	dry := a.admin(http.MethodPost, accountPath+"/ci/token?dryRun=All", `{}`)
	if dry.code != http.StatusCreated || strings.Contains(string(dry.body), tokens.Prefix) || len(a.records()) != 1 {
		t.Errorf("dry run: %d %s", dry.code, dry.body)
	}
}

// TestTokenRequests: what is asked for and cannot be had is refused, with the field.
func TestTokenRequests(t *testing.T) {
	a := startAccounts(t)
	a.token("ci")
	for body, want := range map[string]string{
		`{"spec":{"expirationSeconds":599}}`:                    "expirationSeconds: Invalid value: 599: must be at least 600",
		`{"spec":{"expirationSeconds":4294967297}}`:             "spec.expirationSeconds",
		`{"spec":{"expirationSeconds":9223372036854775807}}`:    "spec.expirationSeconds",
		`{"spec":{"audiences":["other"]}}`:                      "spec.audiences: Forbidden",
		`{"spec":{"boundObjectRef":{"kind":"Pod","name":"x"}}}`: "spec.boundObjectRef: Forbidden",
		`{"spec":{"expirationSeconds":"x"}}`:                    "cannot unmarshal string",
		`{"kind":"ServiceAccount","apiVersion":"v1","spec":{}}`: "",
	} {
		got := a.admin(http.MethodPost, accountPath+"/ci/token", body)
		if got.code < 400 || got.code >= 500 || !strings.Contains(string(got.body), want) ||
			strings.Contains(string(got.body), tokens.Prefix) {
			t.Errorf("%s: %d %s", body, got.code, got.body)
		}
	}
	if got := a.admin(http.MethodPost, accountPath+"/none/token", `{}`); got.code != http.StatusNotFound {
		t.Errorf("no such account: %d %s", got.code, got.body)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
		path := tokensPath
		if method != http.MethodPost {
			path += "/" + a.records()[0].Name
		}
		got := a.admin(method, path, `{"apiVersion":"v1","kind":"Token","metadata":{"name":"mine"}}`)
		if got.code != http.StatusMethodNotAllowed || !strings.Contains(string(got.body), "kubectl create token") {
			t.Errorf("%s: %d %s", method, got.code, got.body)
		}
	}
	for range maxTokensPerAccount - 1 {
		if got := a.admin(http.MethodPost, accountPath+"/ci/token", `{}`); got.code != http.StatusCreated {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
	a.await("the tokens of an account are bounded", func() bool {
		got := a.admin(http.MethodPost, accountPath+"/ci/token", `{}`)
		return got.code == http.StatusForbidden && strings.Contains(string(got.body), "has 100 valid tokens already")
	})
}

// TestUseOfTokensIsKept: the record has when a token was last used, and from where; the first use is there
// at once, before the interval of the writes.
func TestUseOfTokensIsKept(t *testing.T) {
	a := startAccounts(t)
	before := time.Now().Add(-time.Second)
	token := a.token("ci")     // which is used until it is valid
	a.code(token, accountPath) // which may be forbidden: the token was used nevertheless
	a.await("the first use is written", func() bool { return a.records()[0].Status.LastUsedTime != nil })
	if wait := time.Since(before); wait > useInterval/2 {
		t.Errorf("the first use is written after %v", wait)
	}
	status := a.records()[0].Status
	if status.LastUsedTime == nil || status.LastUsedTime.Time.Before(before.Truncate(time.Second)) ||
		status.LastUsedFrom != "127.0.0.1" {
		t.Errorf("%+v", status)
	}
	version := a.records()[0].ResourceVersion
	a.code(token, accountPath)
	a.server.uses.write(t.Context())
	if got := a.records()[0].ResourceVersion; got != version {
		t.Error("each use is a write")
	}
	if len(a.server.uses.due(time.Now().Add(2*useStep))) != 1 || len(a.server.uses.due(time.Now().Add(4*useStep))) != 0 ||
		len(a.server.uses.last) != 0 {
		t.Error("a token that is not used any more is not forgotten")
	}
	if a.code(token, "/api/v1") != http.StatusOK {
		t.Error("the token of a record that has changed is refused")
	}
}

// TestExpiredRecordsAreRemoved: a while after the token has expired, and not before.
func TestExpiredRecordsAreRemoved(t *testing.T) {
	a := startAccounts(t)
	a.token("ci")
	account := &v1.ServiceAccount{}
	err := a.stores[kinds.ServiceAccounts].Get(t.Context(), "/serviceaccounts/g10/ci", storage.GetOptions{}, account)
	if err != nil {
		t.Fatal(err)
	}
	for age, name := range map[time.Duration]string{expiredFor - time.Hour: "recent", expiredFor + time.Hour: "old"} {
		_, record := a.tokens.Make(account, time.Now().Add(-age))
		record.Name, record.UID = name, "1"
		err := a.stores[kinds.Tokens].Create(t.Context(), "/tokens/g10/"+name, record, &v1.Token{}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	a.await("the records are there", func() bool { return len(a.tokens.Expired(time.Now())) == 2 })
	a.server.uses.removeExpired(t.Context())
	var names []string
	for _, record := range a.records() {
		names = append(names, strings.Split(record.Name, "-")[0])
	}
	if strings.Join(names, " ") != "ci recent" {
		t.Errorf("left: %v", names)
	}
}

// TestEditMakesNoTokens: a user who may edit a namespace gets no rights through its ServiceAccounts,
// and one who may administer it does.
func TestEditMakesNoTokens(t *testing.T) {
	a := startAccounts(t)
	a.token("ci")
	for _, role := range []string{"view", "edit", "admin"} {
		a.bindIn(role, "system:serviceaccount:g10:"+role, "Authorization", "Bearer admin-token")
	}
	type attempt struct{ method, path string }
	for role, want := range map[string]int{
		"view": http.StatusForbidden, "edit": http.StatusForbidden, "admin": http.StatusOK,
	} {
		token := a.token(role)
		a.await("the role is there", func() bool { return a.code(token, accountPath) == http.StatusOK })
		for _, try := range []attempt{
			{http.MethodPost, accountPath + "/ci/token"}, {http.MethodGet, tokensPath},
			{http.MethodDelete, accountPath + "/none"},
		} {
			got := a.do(try.method, try.path, `{}`, "Authorization", "Bearer "+token)
			if isForbidden := got.code == http.StatusForbidden; isForbidden != (want == http.StatusForbidden) {
				t.Errorf("%s: %s %s: %d %s", role, try.method, try.path, got.code, got.body)
			}
		}
		got := a.do(http.MethodGet, accountPath, nil, "Authorization", "Bearer "+token, "Impersonate-User",
			"system:serviceaccount:g10:view")
		if got.code != want {
			t.Errorf("%s impersonates: %d %s", role, got.code, got.body)
		}
	}
}

// TestTokensEndWithTheirNamespace: a namespace that is created again has no account and no token of the
// former one.
func TestTokensEndWithTheirNamespace(t *testing.T) {
	for _, kind := range kinds.All() {
		if kind.Namespaced && !slices.Contains(kinds.Content(), kind.Resource) {
			t.Errorf("the %s of a deleted namespace are left", kind.Resource)
		}
	}
	a := startAccounts(t)
	token := a.token("ci")
	const namespace = "/api/v1/namespaces/g10"
	a.admin(http.MethodDelete, namespace, nil)
	a.await("the namespace is gone", func() bool {
		return a.admin(http.MethodGet, namespace, nil).code == http.StatusNotFound
	})
	if got := a.code(token, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a token of a deleted namespace: %d", got)
	}
	a.token("ci")
	if got := a.code(token, "/api/v1"); got != http.StatusUnauthorized || len(a.records()) != 1 {
		t.Errorf("a token of the former namespace: %d, with %d records", got, len(a.records()))
	}
}

// TestDeletedAccountsMakeNoTokens: an account that its finalizers keep makes no token, and its tokens are
// refused.
func TestDeletedAccountsMakeNoTokens(t *testing.T) {
	a := startAccounts(t)
	a.admin(http.MethodPost, accountPath,
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"fin","finalizers":["example.com/x"]}}`)
	token := a.token("fin")
	if got := a.admin(http.MethodDelete, accountPath+"/fin", nil); got.code != http.StatusOK {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := a.code(token, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a token of a deleted account: %d", got)
	}
	if got := a.admin(http.MethodPost, accountPath+"/fin/token", `{}`); got.code != http.StatusForbidden {
		t.Errorf("a new token of a deleted account: %d %s", got.code, got.body)
	}
}

// TestExpiredTokensMakeRoom: an account that has as many tokens as it may loses the record of the oldest
// one that has expired.
func TestExpiredTokensMakeRoom(t *testing.T) {
	a := startAccounts(t)
	a.token("ci")
	account := &v1.ServiceAccount{}
	err := a.stores[kinds.ServiceAccounts].Get(t.Context(), "/serviceaccounts/g10/ci", storage.GetOptions{}, account)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxTokensPerAccount - 1 {
		life := time.Hour
		if i == 0 {
			life = -time.Hour
		}
		_, record := a.tokens.Make(account, time.Now().Add(life))
		record.UID = types.UID(strconv.Itoa(i))
		if err := a.stores[kinds.Tokens].Create(t.Context(), "/tokens/g10/"+record.Name, record, &v1.Token{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	full := func() bool { return len(a.tokens.Of(account)) == maxTokensPerAccount }
	a.await("the account has as many as it may", full)
	got := a.admin(http.MethodPost, accountPath+"/ci/token?dryRun=All", `{}`)
	if got.code != http.StatusCreated || len(a.records()) != maxTokensPerAccount {
		t.Errorf("dry run: %d with %d records left: %s", got.code, len(a.records()), got.body)
	}
	if got := a.admin(http.MethodPost, accountPath+"/ci/token", `{}`); got.code != http.StatusCreated {
		t.Errorf("%d %s", got.code, got.body)
	}
	a.await("the expired one is gone", func() bool { return full() && len(a.tokens.Expired(time.Now())) == 0 })
}

// TestTokensBeforeTheyAreLoaded: while a start has not read the tokens, one of them is asked to try again,
// and is not refused for good. Other credentials are.
func TestTokensBeforeTheyAreLoaded(t *testing.T) {
	var problem error
	g := &guard{unloaded: func() error { return problem }}
	for _, c := range []struct {
		token   string
		problem error
		want    int
	}{
		{tokens.Prefix + "x", errors.New("not yet"), http.StatusServiceUnavailable},
		{tokens.Prefix + "x", nil, http.StatusUnauthorized},
		{"x", errors.New("not yet"), http.StatusUnauthorized},
	} {
		problem = c.problem
		r := httptest.NewRequest(http.MethodGet, "/api/v1", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		r = r.WithContext(WithListener(r.Context(), Listener{}))
		w := httptest.NewRecorder()
		if g.refuse(w, r); w.Code != c.want {
			t.Errorf("%s, %v: %d, want %d", c.token, c.problem, w.Code, c.want)
		}
	}
}
