package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/audit"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

// audited starts an API with an audit trail, and returns the events of its file, and its text. A
// policy is the rules of a policy file; "" is the built-in one.
func audited(t *testing.T, listener Listener, rules string, change ...func(*Options)) (
	a *api, trail func() (events []auditv1.Event, text string),
) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	policy := audit.BuiltIn(audit.ModeBlocking)
	if rules != "" {
		name := filepath.Join(t.TempDir(), "policy")
		text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: " + rules
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if policy, err = audit.LoadPolicy(name); err != nil {
			t.Fatal(err)
		}
	}
	// In this mode the event is in the file before the answer has ended.
	opened, err := audit.Open(&audit.Options{Path: file, MaxSize: 100, Mode: audit.ModeBlocking}, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	a = startOn(t, newStores(t), listener, append(change, func(o *Options) { o.Audit = opened })...)
	a.awaitRoles()
	return a, func() (events []auditv1.Event, text string) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content) {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			events = append(events, e)
		}
		return events, string(content)
	}
}

// outcome is what a line says in short.
func outcome(e *auditv1.Event) string {
	who, object := e.User.Username, ""
	if e.ImpersonatedUser != nil {
		who += " as " + e.ImpersonatedUser.Username
	}
	if ref := e.ObjectRef; ref != nil {
		object = strings.TrimSuffix(ref.Resource+"/"+ref.Subresource, "/") + " " + ref.Namespace + "/" + ref.Name
	}
	return fmt.Sprintf("%s: %s %s: %s %d", who, e.Verb, object, e.Stage, e.ResponseStatus.Code)
}

// Each request of a user leaves one line, with the user, the object and the outcome: writes, reads,
// refusals by us and by roles, and requests as another user. The address is the one that the server
// knows, and not what the client writes into a header.
func TestEachRequestIsAudited(t *testing.T) {
	answerOK := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	a, trail := audited(t, Listener{}, "", func(o *Options) {
		o.Upload, o.Explain, o.Decider = answerOK, answerOK, decide.New(decide.Options{Inventory: o.Inventory})
	})
	admin := []string{"Authorization", "Bearer admin-token"}
	a.bind(rbac.View, "vic", admin...)
	asVic := append(as("vic"), admin...)
	for _, step := range []struct {
		method, path string
		body         any
		header       []string
		want         []string
	}{
		{"POST", hosts, host("a"), admin, []string{"admin: create baremetalhosts g10/a: ResponseComplete 201"}},
		{"GET", hosts + "/a", nil, admin, []string{"admin: get baremetalhosts g10/a: ResponseComplete 200"}},
		{"GET", hosts, nil, asVic, []string{"admin as vic: list baremetalhosts g10/: ResponseComplete 200"}},
		{"DELETE", hosts + "/a", nil, asVic, []string{"admin as vic: delete baremetalhosts g10/a: ResponseComplete 403"}},
		{"GET", hosts, nil, []string{"Authorization", "Bearer wrong"}, // as kube-apiserver has it: no other stage
			[]string{": list baremetalhosts g10/: ResponseStarted 401"}},
		{"GET", "/api", nil, nil, []string{": get : ResponseStarted 401"}},
		{"GET", "/api/v1", nil, admin, nil},
		{"GET", "/openapi/v3", nil, asVic, nil},
		{"GET", "/version", nil, nil, nil},
		{"POST", hosts, strings.Repeat("x", MaxBodyBytes+1), admin,
			[]string{"admin: create baremetalhosts g10/: ResponseComplete 413"}},
		{"GET", hosts + "?timeout=long", nil, admin, []string{": list baremetalhosts g10/: ResponseStarted 400"}},
		{"GET", hosts + "?watch=true&timeoutSeconds=1", nil, admin, []string{
			"admin: watch baremetalhosts g10/: ResponseStarted 200", "admin: watch baremetalhosts g10/: ResponseComplete 200"}},
		{"PUT", cdroms + "/i/iso", "bytes", admin, []string{
			"admin: update iscsicdroms/iso g10/i: ResponseStarted 201", "admin: update iscsicdroms/iso g10/i: ResponseComplete 201"}},
		{"GET", explainPath + "?mac=52:54:00:00:00:01&token=x", nil, admin,
			[]string{"admin: list explain /: ResponseComplete 201"}},
		{"POST", impactPath, `{"apply":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}]}`, admin,
			[]string{"admin: create impact /: ResponseComplete 200"}},
	} {
		before, _ := trail()
		a.do(step.method, step.path, step.body, append([]string{"X-Forwarded-For", "203.0.113.66"}, step.header...)...)
		var got []string
		testkit.Until(t, "it comes to pass", func() bool { // the end of a watch or of a large body is after that of the answer
			events, _ := trail()
			got = nil
			for i := range events[len(before):] {
				e := &events[len(before)+i]
				got = append(got, outcome(e))
				if fmt.Sprint(e.SourceIPs) != "[127.0.0.1]" {
					t.Errorf("%s: from %v", outcome(e), e.SourceIPs)
				}
			}
			return len(got) >= len(step.want)
		})
		if strings.Join(got, "\n") != strings.Join(step.want, "\n") {
			t.Errorf("%s %s:\n%s, want\n%s", step.method, step.path, strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
	}
	if _, text := trail(); strings.Contains(text, "admin-token") || strings.Contains(text, "Bearer") ||
		strings.Contains(text, "token=x") || strings.Contains(text, `"username":"glowplug"`) {
		t.Error("a line has a credential, or is about the server's own requests")
	}
}

// No line has anything of an object that holds secrets, whatever the policy asks for and however
// the request ends; other objects are there as the policy asks.
func TestAuditHasNoSecrets(t *testing.T) {
	explain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"x":"planted"}`) })
	a, trail := audited(t, Listener{Admin: true, Admitted: true}, "[{level: RequestResponse}]",
		func(o *Options) { o.Explain = explain })
	const merge = "application/merge-patch+json"
	secret := config("x", goodSource+"passwd: {users: [{name: core, password_hash: planted}]}\n")
	bmc := host("a")
	bmc.Spec.BMC = &v1.BMC{Address: "redfish://192.0.2.1", Username: "root", Password: "planted"}
	cdrom := `{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"i"},"spec":{"isoFile":"i.iso",` +
		`"chap":{"username":"node","password":"planted-long"}}}`
	for _, step := range []struct {
		method, path string
		body         any
		header       []string
		code         int
	}{
		{"POST", configs, secret, nil, 201},
		{"PUT", configs + "/x", secret, nil, 200},
		{"POST", configs, config("bad", "variant: planted\n"), nil, 201},
		{"GET", configs + "/x", nil, nil, 200},
		{"GET", configs, nil, nil, 200},
		{"GET", configs + "/x/rendered", nil, nil, 0},
		{"POST", hosts, bmc, nil, 201},
		{"PATCH", hosts + "/a", `{"spec":{"bmc":{"password":"planted"}}}`, []string{"Content-Type", merge}, 200},
		{"PATCH", hosts + "/a", `{"spec":{"ip":"planted"}}`, []string{"Content-Type", merge}, 422},
		{"POST", hosts, `{"metadata":{"name":"b"},"spec":{"bmc":"planted"}}`, nil, 400},
		{"POST", cdroms, cdrom, nil, 201},
		{"DELETE", cdroms + "/i", nil, nil, 200},
		{"GET", explainPath, nil, nil, 200},
		{"POST", impactPath, map[string]any{"apply": []any{secret}}, nil, 0},
		{"POST", "/api/v1/namespaces/g10/secrets", `{"metadata":{"name":"s"},"stringData":{"a":"planted"}}`, nil, 201},
		{"GET", hosts + "/a?access_token=planted&token=planted", nil, nil, 200},
	} {
		if got := a.do(step.method, step.path, step.body, step.header...); step.code != 0 && got.code != step.code {
			t.Errorf("%s %s: %d: %.500s", step.method, step.path, got.code, got.body)
		}
	}
	a.must(http.StatusCreated, "POST", rolesPath, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",`+
		`"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["events"],"verbs":["get"]}]}`)
	events, text := trail()
	if at := max(strings.Index(text, "planted"), strings.Index(text, "cGxhbnRlZA")); at >= 0 { // or in base64
		t.Errorf("a secret is in the trail: %s", text[max(0, at-600):at+10])
	}
	if len(events) < 17 {
		t.Errorf("there are %d events", len(events))
	}
	role := events[len(events)-1]
	if role.RequestObject == nil || role.ResponseObject == nil || !strings.Contains(string(role.RequestObject.Raw), `"events"`) {
		t.Errorf("the body of a role is missing: %s", text[strings.LastIndexByte(strings.TrimSpace(text), '\n'):])
	}
}

// blocked is a standard output that takes nothing.
type blocked struct{ release chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.release; return len(p), nil }

// A trail whose disk is slow or full delays no answer.
func TestBlockedAuditDelaysNoAnswer(t *testing.T) {
	out := blocked{make(chan struct{})}
	policy := audit.BuiltIn(audit.ModeBatch)
	opened, err := audit.Open(&audit.Options{Path: audit.Stdout, Mode: audit.ModeBatch}, policy, out)
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, func(o *Options) { o.Audit = opened })
	a.client.Timeout = 30 * time.Second
	for range 5 {
		a.must(http.StatusOK, "GET", hosts, nil)
	}
	close(out.release)
	if err := opened.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A user who has the name of the server's own requests is audited like any other.
func TestNameOfTheServerHidesNobody(t *testing.T) {
	a, trail := audited(t, Listener{Admin: true, Admitted: true}, "")
	a.do("GET", hosts, nil, as(internalUser)...)
	events, _ := trail()
	if got := outcome(&events[len(events)-1]); got != "local-admin as glowplug: list baremetalhosts g10/: ResponseComplete 403" {
		t.Error(got)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, tokens, "token,glowplug,1\n")
	a, trail = audited(t, Listener{}, "", func(o *Options) { o.TokenFile = tokens })
	a.do("GET", hosts, nil, "Authorization", "Bearer token")
	if events, _ = trail(); len(events) != 1 || events[0].User.Username != internalUser {
		t.Errorf("%+v", events)
	}
}
