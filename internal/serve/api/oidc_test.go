package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/rbac"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// writeIssuers writes a file of issuers.
func writeIssuers(t *testing.T, path string, entries ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(oidctest.File(entries...)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startWithIssuers returns an API with a file of issuers, and what it has logged. upload takes the uploads of images;
// nil: there are none.
func startWithIssuers(t *testing.T, upload http.Handler, entries ...string) (
	a *api, file string, logged func() string,
) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "authentication.yaml")
	writeIssuers(t, file, entries...)
	log, logged := logstest.Logger()
	a = startOn(t, newStores(t), Listener{}, func(opts *Options) {
		opts.AuthenticationConfig, opts.Logger, opts.Upload = file, log, upload
	})
	return a, file, logged
}

// bindGroup gives a group a ClusterRole in the namespace g10.
func (a *api) bindGroup(role, group string) {
	a.t.Helper()
	a.awaitRoles()
	a.must(http.StatusCreated, "POST", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + ":" + group},
		RoleRef:    roleRef(rbac.KindClusterRole, role),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
	}, "Authorization", "Bearer admin-token")
}

// TestUsersOfAnIssuer: a user of an OpenID Connect issuer does what the roles of his groups say, which have
// the prefix of the file, and nothing else.
func TestUsersOfAnIssuer(t *testing.T) {
	issuer := oidctest.New(t)
	a, _, logged := startWithIssuers(t, nil, issuer.Entry(""))
	token := issuer.Token(t, nil)
	ann := []string{"Authorization", "Bearer " + token}
	testkit.Until(t, "the issuer is used", func() bool { return a.do("GET", "/api/v1", nil, ann...).code == http.StatusOK })
	a.must(http.StatusForbidden, "GET", configs, nil, ann...)
	a.bindGroup(rbac.View, "oidc:ops")
	testkit.Until(t, "the role is used", func() bool { return a.do("GET", configs, nil, ann...).code == http.StatusOK })
	a.must(http.StatusForbidden, "POST", configs, config("x", goodSource), ann...)
	a.must(http.StatusForbidden, "GET", strings.Replace(configs, "g10", "g11", 1), nil, ann...)
	review := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	who := a.must(http.StatusCreated, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, ann...)
	if !strings.Contains(string(who.body), `"username":"oidc:ann"`) || !strings.Contains(string(who.body), `"oidc:ops"`) {
		t.Errorf("%s", who.body)
	}
	a.must(http.StatusOK, "GET", configs, nil, "Authorization", "Bearer admin-token")
	expired := issuer.Token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	masters := issuer.Token(t, map[string]any{"aud": "other", "groups": []string{"system:masters"}})
	for _, refused := range []string{expired, masters, token + "x"} {
		a.must(http.StatusUnauthorized, "GET", configs, nil, "Authorization", "Bearer "+refused)
	}
	for _, part := range strings.Split(token, ".") {
		if strings.Contains(logged(), part) {
			t.Errorf("a part of a token is logged:\n%s", logged())
		}
	}
}

// TestRemovedIssuersLoseTheirUsers: within seconds the tokens of an issuer that is taken out of the file are
// refused, and open watches and uploads of its users end. A file that is wrong changes nothing, and users of
// other issuers notice nothing.
func TestRemovedIssuersLoseTheirUsers(t *testing.T) {
	removed, kept := oidctest.New(t), oidctest.New(t)
	uploads := make(chan context.Context, 1)
	upload := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		uploads <- r.Context()
		<-r.Context().Done()
	})
	a, file, logged := startWithIssuers(t, upload, removed.Entry(""), kept.Entry(""))
	a.bindGroup(rbac.Edit, "oidc:ops")
	formers, others := removed.Token(t, nil), kept.Token(t, nil)
	status := func(token string) int {
		return a.do("GET", configs, nil, "Authorization", "Bearer "+token).code
	}
	for _, token := range []string{formers, others} {
		testkit.Until(t, "the issuer is used", func() bool { return status(token) == http.StatusOK })
	}
	ended, open := a.watchAs(formers, configs), a.watchAs(others, configs)
	formersUpload, othersUpload := a.uploadAs(formers, uploads), a.uploadAs(others, uploads)

	if err := os.WriteFile(file, []byte(oidctest.File("- issuer: {uri: x}\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the log names the wrong field", func() bool {
		return strings.Contains(logged(), `unknown field \"jwt[0].issuer.uri`)
	})
	if status(formers) != http.StatusOK || status(others) != http.StatusOK {
		t.Error("a wrong file removes issuers")
	}

	writeIssuers(t, file, kept.Entry(""))
	testkit.Until(t, "the tokens of a removed issuer are refused", func() bool {
		return status(formers) == http.StatusUnauthorized
	})
	for what, ended := range map[string]<-chan struct{}{"watch": ended, "upload": formersUpload} {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("the %s of a user of a removed issuer goes on", what)
		}
	}
	if status(others) != http.StatusOK {
		t.Error("a user of another issuer is refused")
	}
	select {
	case <-open:
		t.Error("the watch of a user of another issuer has ended")
	case <-othersUpload:
		t.Error("the upload of a user of another issuer has ended")
	default:
	}
}

// uploadAs begins an upload with a token; the channel is closed when the server ends it. The handler sends the
// contexts of uploads.
func (a *api) uploadAs(token string, begun <-chan context.Context) <-chan struct{} {
	a.t.Helper()
	body, unsent := io.Pipe()
	a.t.Cleanup(func() { _ = unsent.Close() })
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPut, a.url+cdroms+"/router/iso", body)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answered := make(chan string, 1)
	go func() {
		resp, err := a.client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			err = errors.New(resp.Status)
		}
		answered <- err.Error()
	}()
	select {
	case ctx := <-begun:
		return ctx.Done()
	case early := <-answered:
		a.t.Fatalf("an upload: %s", early)
	}
	return nil
}

// watchAs opens a watch with a token; the channel is closed when it ends.
func (a *api) watchAs(token, path string) <-chan struct{} {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.url+path+"?watch=true", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := a.client.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("%v %v", resp, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	return ended
}

// TestWrongFileOfIssuersAtTheStart: the server does not start, and the error names the flag, the file and
// the field.
func TestWrongFileOfIssuersAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	for content, want := range map[string]string{
		oidctest.File("- issuer: {url: 'http://a.example', audiences: [a]}\n"): "jwt[0].issuer.url",
		oidctest.File() + "anonymous: {enabled: true}\n":                       "anonymous: Forbidden",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := New(Options{Stores: newStores(t), AuthenticationConfig: file})
		if err == nil || !strings.HasPrefix(err.Error(), "--authentication-config: "+file) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
