package api

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/logs"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/testkit"
)

// traced starts an API that logs, and returns what it has logged of a kind.
func traced(t *testing.T, listener Listener, change ...func(*Options)) (a *api, lines func(message string) []string) {
	t.Helper()
	logger, logged := logstest.Logger()
	limiter := logs.NewLimiter(logger, nil)
	t.Cleanup(limiter.Close)
	change = append(change, func(o *Options) { o.Logger, o.Limiter = logger, limiter })
	return startOn(t, newStores(t), listener, change...), func(message string) (found []string) {
		for line := range strings.Lines(logged()) {
			if strings.Contains(line, `msg="`+message+`" `) {
				found = append(found, line)
			}
		}
		return found
	}
}

// Each write leaves one line that says who did what to which object, from where and how
// that went; a read leaves none. No line has anything of a body.
func TestWritesLeaveALine(t *testing.T) {
	upload := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	})
	a, lines := traced(t, Listener{}, func(o *Options) { o.Upload = upload })
	const token, secret = "Bearer admin-token", "s3cret-of-a-body"
	object := func(name string) any {
		h := host(name)
		h.Annotations = map[string]string{"note": secret}
		if name == "" {
			h.GenerateName = "rack-"
		}
		return h
	}
	const review = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",` +
		`"spec":{"resourceAttributes":{"verb":"get"}}}`
	merge := []string{"Content-Type", "application/merge-patch+json"}
	for _, step := range []struct {
		method, path string
		body         any
		header       []string
		want         string // without who, where and how long
	}{
		{"POST", hosts, object("a"), nil, "verb=create resource=baremetalhosts object=g10/a status=201"},
		{"POST", hosts, object("a"), nil, "verb=create resource=baremetalhosts object=g10/a status=409"},
		{"POST", hosts, object(""), nil, "verb=create resource=baremetalhosts object=g10/rack-"},
		{"POST", hosts + "?dryRun=All", object("b"), nil,
			"verb=create resource=baremetalhosts object=g10/b dry_run=true status=201"},
		{"PUT", hosts + "/a", object("a"), nil, "verb=update resource=baremetalhosts object=g10/a status=200"},
		{"PATCH", hosts + "/a", `{"spec":{"hostname":"` + secret + `"}}`, merge,
			"verb=patch resource=baremetalhosts object=g10/a status=200"},
		{"PATCH", hosts + "/a/status", `{"status":{"state":"Booting"}}`, merge,
			"verb=patch resource=baremetalhosts/status object=g10/a status=200"},
		{"PATCH", hosts + "/a", `{"spec":{"ip":"` + secret + `"}}`, merge,
			"verb=patch resource=baremetalhosts object=g10/a status=422"},
		{"GET", hosts + "/a", nil, nil, ""},
		{"GET", hosts, nil, nil, ""},
		{"PUT", cdroms + "/i/iso", secret, nil, "verb=update resource=iscsicdroms/iso object=g10/i status=201"},
		{"DELETE", hosts + "/a", nil, nil, "verb=delete resource=baremetalhosts object=g10/a status=200"},
		{"DELETE", hosts, nil, nil, "verb=deletecollection resource=baremetalhosts object=g10/* status=200"},
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`, nil,
			"verb=create resource=namespaces object=n status=201"},
		{"DELETE", "/api/v1/namespaces/n", nil, nil, "verb=delete resource=namespaces object=n status="},
		{"POST", "/nothing", secret, nil, "verb=post path=/nothing status=404"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, nil, ""},
	} {
		before := len(lines("api write"))
		answer := a.do(step.method, step.path, step.body, append(step.header, "Authorization", token)...)
		if step.want == "" {
			if got := lines("api write")[before:]; len(got) > 0 || answer.code >= 300 {
				t.Errorf("%s %s: %d, %s", step.method, step.path, answer.code, got)
			}
			continue
		}
		testkit.Until(t, "it comes to pass", func() bool { return len(lines("api write")) > before }) // it is written after the answer
		got := lines("api write")[before:]
		want := ` level=INFO msg="api write" user=admin client=127.0.0.1 ` + step.want
		if len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], " duration=") ||
			strings.Contains(got[0], secret) || strings.Contains(got[0], "admin-token") {
			t.Errorf("%s %s: %d, %s", step.method, step.path, answer.code, got)
		}
	}
	if got := lines("a credential was refused"); len(got) > 0 {
		t.Error(got)
	}
}

// What the program writes itself is told to be its own, and a user who has its name is a client.
func TestWritesOfTheProgramItself(t *testing.T) {
	a, lines := traced(t, Listener{})
	client := &http.Client{Transport: a.server.LoopbackConfig().Transport}
	body := `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"a"}}`
	r, _ := http.NewRequest("POST", "http://glowplug.invalid"+hosts, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	testkit.Until(t, "it comes to pass", func() bool { return len(lines("api write")) == 1 })
	want := " user=glowplug verb=create resource=baremetalhosts object=g10/a status=201 "
	if got := lines("api write")[0]; !strings.Contains(got, want) || strings.Contains(got, " client=") {
		t.Error(got)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, tokens, `token,glowplug,1,"system:masters"`+"\n")
	a, lines = traced(t, Listener{}, func(o *Options) { o.TokenFile = tokens })
	a.must(http.StatusCreated, "POST", hosts, host("b"), "Authorization", "Bearer token")
	testkit.Until(t, "it comes to pass", func() bool { return len(lines("api write")) == 1 })
	if got := lines("api write")[0]; !strings.Contains(got, " user=glowplug client=") {
		t.Error(got)
	}
}

// A refused credential leaves a line that says of what kind it was and where it came
// from, and never what it was.
func TestRefusedCredentialsLeaveALine(t *testing.T) {
	a, lines := traced(t, Listener{})
	const secret = "s3cret"
	for _, step := range []struct{ method, authorization, want string }{
		{"GET", "Bearer " + secret, `credential="bearer token" method=GET path=` + hosts + ` status=401`},
		{"POST", "Bearer " + secret, `credential="bearer token" method=POST`},
		{"GET", "Basic " + secret, `credential="user and password"`},
		{"GET", secret, `credential="another Authorization header"`},
		{"GET", "", "credential=none"},
	} {
		before := len(lines("a credential was refused"))
		a.must(http.StatusUnauthorized, step.method, hosts+"?access_token="+secret, nil, "Authorization", step.authorization)
		testkit.Until(t, "it comes to pass", func() bool { return len(lines("a credential was refused")) > before })
		got := lines("a credential was refused")[before:]
		want := ` level=WARN msg="a credential was refused" client=127.0.0.1 ` + step.want
		if len(got) != 1 || !strings.Contains(got[0], want) || strings.Contains(got[0], secret) {
			t.Errorf("%q: %s", step.authorization, got)
		}
	}
	if got := lines("api write"); len(got) > 0 {
		t.Errorf("a refused write is told twice: %s", got)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if got := credentialOf(r); got != "client certificate" {
		t.Error(got)
	}
}

// So does one that is refused in front of another handler than the API's, such as /metrics.
func TestRefusedCredentialElsewhereLeavesALine(t *testing.T) {
	a, lines := traced(t, Listener{})
	metrics := a.server.Authorized(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request without a valid credential is answered")
	}))
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, r)
	want := `credential="bearer token" method=GET path=/metrics status=401`
	if got := lines("a credential was refused"); answer.Code != http.StatusUnauthorized || len(got) != 1 ||
		!strings.Contains(got[0], want) {
		t.Errorf("%d %s", answer.Code, got)
	}
}

// Who has a credential and may not do what it asks for leaves a line, too.
func TestForbiddenRequestsLeaveALine(t *testing.T) {
	a, lines := traced(t, Listener{})
	a.do("GET", hosts, nil, "Authorization", "Bearer admin-token", "Impersonate-User", "system:anonymous")
	const forbidden = "a request was refused: no role of the user allows it"
	testkit.Until(t, "it comes to pass", func() bool { return len(lines(forbidden)) == 1 })
	want := `user=admin as=system:anonymous client=127.0.0.1 credential="bearer token" method=GET path=` + hosts +
		` status=403`
	if got := lines(forbidden)[0]; !strings.Contains(got, want) {
		t.Error(got)
	}
	a.must(http.StatusCreated, "POST", hosts, host("a"), "Authorization", "Bearer admin-token",
		"Impersonate-User", "eve", "Impersonate-Group", "system:masters")
	testkit.Until(t, "it comes to pass", func() bool { return len(lines("api write")) == 1 })
	if got := lines("api write")[0]; !strings.Contains(got, "user=admin as=eve client=") {
		t.Error(got)
	}
}

// A flood of refused credentials leaves a bounded number of lines and how many were left
// out; what another source is refused, and what is written meanwhile, is all there. What
// the library says of requests that nobody may make is bounded as well, and has no query.
func TestFloodOfRefusedCredentialsLeavesFewLines(t *testing.T) {
	logger, logged := logstest.Logger()
	limiter := logs.NewLimiter(logger, nil)
	BridgeLogs(slog.New(limiter.Handler(logger.Handler(), logs.Origin{Kind: logs.Library, Name: "kubernetes"})))
	t.Cleanup(func() { BridgeLogs(slog.New(slog.DiscardHandler)) })
	a := startOn(t, newStores(t), Listener{}, func(o *Options) { o.Logger, o.Limiter = logger, limiter })
	handler := a.server.Handler(Listener{})
	ask := func(from, path string) {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = from + ":4000"
		r.Header.Set("Authorization", "Bearer s3cret")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	const flood, writes = 10_000, 100
	for range flood {
		ask("192.0.2.1", hosts+"?limit=many&access_token=s3cret")
	}
	ask("192.0.2.2", hosts)
	for n := range writes {
		a.must(http.StatusCreated, "POST", hosts, host(fmt.Sprint("h", n)), "Authorization", "Bearer admin-token")
	}
	count := func(parts ...string) (n int) {
		for line := range strings.Lines(logged()) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				n++
			}
		}
		return n
	}
	testkit.Until(t, "it comes to pass", func() bool { return count(`msg="api write"`) == writes })
	limiter.Close()
	const most = 1000 // 60 and one a second, however slow the machine is
	of := count("a credential was refused", "client=192.0.2.1 ")
	if of == 0 || of > most {
		t.Errorf("%d lines of the flood", of)
	}
	if count("kind=refused source=192.0.2.1 lines=") == 0 {
		t.Error("no line says how many were left out")
	}
	if got := count("a credential was refused", "client=192.0.2.2 "); got != 1 {
		t.Errorf("%d lines of another source", got)
	}
	if got := count("from=kubernetes"); got == 0 || got > most {
		t.Errorf("%d lines of the library", got)
	}
	if strings.Contains(logged(), "s3cret") {
		t.Error("the log has the token")
	}
}
