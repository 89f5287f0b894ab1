package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
)

const jsonPatch = "application/json-patch+json"

// startWriter returns an API with the Secret root, and pat, who may write Secrets and not read them; and what the
// server has logged.
func startWriter(t *testing.T) (*api, func() string) {
	t.Helper()
	a, logged := startLogged(t)
	a.must(http.StatusCreated, "POST", rolesPath, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "patcher"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{""}, Resources: []string{"secrets"},
		}},
	})
	a.must(http.StatusCreated, "POST", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pat"}, RoleRef: roleRef(rbac.KindRole, "patcher"), Subjects: users("pat"),
	})
	root := secret("root", "", nil)
	root.Data = map[string][]byte{"token": []byte(plantedValue)}
	a.must(http.StatusCreated, "POST", secretsPath, lastApplied(t, root))
	return a, logged
}

// quotesPlanted reports whether a text has one of the confidential values.
func quotesPlanted(text string) bool {
	return strings.Contains(text, hidden) || strings.Contains(text, plantedValue) || strings.Contains(text, plantedBase64)
}

// TestPatchesThatCopySecretsQuoteNothing: a user who may write an object, and not read what is confidential in it,
// copies, moves and tests that with a patch: no answer has it, nor the log, also where the user may read it.
func TestPatchesThatCopySecretsQuoteNothing(t *testing.T) {
	a, logged := startWriter(t)
	annotation := "/metadata/annotations/" + strings.ReplaceAll(v1.AnnotationLastApplied, "/", "~1")
	for _, c := range []struct{ who, path, field, guess string }{
		{"pat", secretsPath + "/root", "/data/token", plantedBase64},
		{"eve", configs + "/secret", "/spec/config", motd(hidden)},
		{"eve", hosts + "/secret", "/spec/bmc/password", hidden},
		{"eve", cdroms + "/secret", "/spec/chap/password", hidden},
	} {
		as, admin := append(as(c.who), "Content-Type", jsonPatch), []string{"Content-Type", jsonPatch}
		for _, from := range []string{c.field, c.field[:strings.LastIndex(c.field, "/")], annotation} {
			for _, to := range []string{"/metadata/resourceVersion", "/type", "/metadata/name", "/metadata/namespace",
				"/metadata/labels", "/metadata/annotations/x", "/kind", "/apiVersion", "/metadata/uid",
				"/metadata/creationTimestamp", "/metadata/finalizers", "/metadata/managedFields/0/time",
				"/metadata/managedFields/0/operation", "/metadata/generation", "/data/other", "/immutable", "/spec/type",
				"/spec/bootMACAddress", "/spec/isoFile", "/spec/image"} {
				for _, op := range []string{"copy", "move"} {
					patch := fmt.Sprintf(`[{"op":%q,"from":%q,"path":%q}]`, op, from, to)
					got := a.do("PATCH", c.path+"?dryRun=All", patch, as...)
					if quotesPlanted(string(got.body)) || got.code == http.StatusInternalServerError {
						t.Errorf("%s of %s: %d %s", patch, c.path, got.code, got.body)
					}
					if got := a.do("PATCH", c.path+"?dryRun=All", patch, admin...); got.code == http.StatusInternalServerError {
						t.Errorf("%s of %s by the administrator: %d %s", patch, c.path, got.code, got.body)
					}
				}
			}
		}
		test := a.do("PATCH", c.path, fmt.Sprintf(`[{"op":"test","path":%q,"value":%q}]`, c.field, c.guess), as...)
		if test.code != http.StatusUnprocessableEntity {
			t.Errorf("%s: a patch tells whether a guess is right: %d", c.path, test.code)
		}
	}
	if text := logged(); quotesPlanted(text) {
		t.Errorf("the log has a value: %s", text)
	}
}

// TestWritersOfSecretsReadNothing: who may write a Secret and not read it reads it in no answer, keeps its values
// with <redacted>, and does not find out whether a guess is right.
func TestWritersOfSecretsReadNothing(t *testing.T) {
	a, _ := startWriter(t)
	pat := append(as("pat"), mergePatch...)
	labelled := a.must(http.StatusOK, "PATCH", secretsPath+"/root", `{"metadata":{"labels":{"a":"b"}}}`, pat...)
	put := a.must(http.StatusOK, "PUT", secretsPath+"/root", string(labelled.body), as("pat")...)
	more := a.must(http.StatusOK, "PATCH", secretsPath+"/root", `{"stringData":{"more":"x"}}`, pat...)
	applied := a.must(http.StatusOK, "PATCH", secretsPath+"/root?fieldManager=x", `{"apiVersion":"v1","kind":"Secret",`+
		`"metadata":{"name":"root"},"stringData":{"applied":"y"}}`,
		append(as("pat"), "Content-Type", "application/apply-patch+yaml")...)
	for _, got := range []answer{labelled, put, more, applied,
		a.must(http.StatusOK, "DELETE", secretsPath+"/root?dryRun=All", nil, as("pat")...)} {
		if quotesPlanted(string(got.body)) {
			t.Errorf("%s", got.body)
		}
	}
	read := string(a.must(http.StatusOK, "GET", secretsPath+"/root", nil).body)
	if want := `"data":{"applied":"eQ==","more":"eA==","token":"` + plantedBase64 + `"}`; !strings.Contains(read, want) {
		t.Errorf("%s lacks %s", read, want)
	}
	// A list of the values is for who may list, as in Kubernetes.
	a.bindIn(rbac.Edit, "lis")
	if got := a.must(http.StatusOK, "GET", secretsPath, nil, as("lis")...); !quotesPlanted(string(got.body)) {
		t.Errorf("%s", got.body)
	}
	// The same manager has given the value, so that nothing but the time would change.
	guess := func(value, query string) answer {
		return a.do("PATCH", secretsPath+"/root?fieldManager=own"+query, `{"data":{"token":"`+value+`"}}`, pat...)
	}
	for _, value := range []string{"b3RoZXI=", plantedBase64} {
		a.must(http.StatusOK, "PATCH", secretsPath+"/root?fieldManager=own", `{"data":{"token":"`+value+`"}}`, mergePatch...)
	}
	right, wrong := guess(plantedBase64, "&dryRun=All"), guess("d3Jvbmc=", "&dryRun=All")
	times := regexp.MustCompile(`"time":"[^"]*"`)
	same := func(got answer) string { return times.ReplaceAllString(string(got.body), "") }
	if right.code != http.StatusOK || same(right) != same(wrong) {
		t.Errorf("a right guess is answered %d %s\na wrong one %d %s", right.code, right.body, wrong.code, wrong.body)
	}
	before := a.must(http.StatusOK, "GET", secretsPath+"/root", nil).object(t).GetResourceVersion()
	if guess(plantedBase64, "").object(t).GetResourceVersion() == before {
		t.Error("a right guess changes nothing")
	}
	a.must(http.StatusOK, "PATCH", secretsPath+"/root", `{"immutable":true}`, mergePatch...)
	right, wrong = guess(plantedBase64, ""), guess("d3Jvbmc=", "")
	if right.code != http.StatusUnprocessableEntity || string(right.body) != string(wrong.body) {
		t.Errorf("immutable: a right guess is answered %d %s\na wrong one %d %s", right.code, right.body, wrong.code, wrong.body)
	}
}
