package api

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
)

const (
	secretsPath  = g10 + "/secrets"
	plantedValue = "planted-value-90af"
	// plantedBase64 is plantedValue as in answers.
	plantedBase64 = "cGxhbnRlZC12YWx1ZS05MGFm"
)

func secret(name, typ string, data map[string]string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: typ, StringData: data}
}

func TestSecrets(t *testing.T) {
	a := start(t)
	made := a.must(http.StatusCreated, "POST", secretsPath, secret("token", "", map[string]string{"token": plantedValue}))
	for _, want := range []string{`"type":"Opaque"`, `"data":{"token":"` + plantedBase64 + `"}`} {
		if !strings.Contains(string(made.body), want) {
			t.Errorf("%s lacks %s", made.body, want)
		}
	}
	got := a.must(http.StatusOK, "GET", secretsPath+"/token", nil)
	if strings.Contains(string(got.body), "stringData") || !strings.Contains(string(got.body), plantedBase64) {
		t.Errorf("%s", got.body)
	}
	// A value in stringData replaces that in data, and other keys stay.
	a.must(http.StatusOK, "PATCH", secretsPath+"/token", `{"stringData":{"more":"x"}}`,
		"Content-Type", "application/merge-patch+json")
	got = a.must(http.StatusOK, "GET", secretsPath+"/token", nil)
	if !strings.Contains(string(got.body), `"data":{"more":"eA==","token":"`+plantedBase64+`"}`) {
		t.Errorf("%s", got.body)
	}
	table := a.must(http.StatusOK, "GET", secretsPath, nil, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(string(table.body), `"cells":["token","Opaque",2,`) {
		t.Errorf("%s", table.body)
	}
	selected := a.must(http.StatusOK, "GET", secretsPath+"?fieldSelector=type%3Dkubernetes.io/tls", nil)
	if strings.Contains(string(selected.body), plantedBase64) {
		t.Errorf("%s", selected.body)
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	a := start(t)
	for name, c := range map[string]struct {
		typ  string
		data map[string]string
		want string
	}{
		"tls":        {v1.SecretTLS, map[string]string{"tls.crt": plantedValue}, "data[tls.key]: Required"},
		"basic-auth": {v1.SecretBasicAuth, map[string]string{"other": plantedValue}, "data: Required"},
		"docker":     {v1.SecretDockerConfigJSON, map[string]string{".dockerconfigjson": plantedValue}, "is not JSON"},
		"token": {"kubernetes.io/service-account-token", map[string]string{"token": plantedValue},
			"kubectl create token"},
		"a key":         {"", map[string]string{"a/b": plantedValue}, "data[a/b]: Invalid"},
		"more than 1Mi": {"", map[string]string{"a": strings.Repeat(plantedValue, 1<<16)}, "data: Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.must(http.StatusUnprocessableEntity, "POST", secretsPath, secret("x", c.typ, c.data))
			if message := got.status(t).Message; !strings.Contains(message, c.want) ||
				strings.Contains(string(got.body), plantedValue) || strings.Contains(string(got.body), plantedBase64) {
				t.Errorf("%.500s, want %s", message, c.want)
			}
		})
	}
	a.must(http.StatusCreated, "POST", secretsPath, secret("fixed", "", map[string]string{"a": "b"}))
	merge := []string{"Content-Type", "application/merge-patch+json"}
	a.must(http.StatusUnprocessableEntity, "PATCH", secretsPath+"/fixed", `{"type":"kubernetes.io/tls"}`, merge...)
	a.must(http.StatusOK, "PATCH", secretsPath+"/fixed", `{"immutable":true}`, merge...)
	a.must(http.StatusUnprocessableEntity, "PATCH", secretsPath+"/fixed", `{"stringData":{"a":"c"}}`, merge...)
	a.must(http.StatusUnprocessableEntity, "PATCH", secretsPath+"/fixed", `{"immutable":false}`, merge...)
	bad := `{"metadata":{"name":"x"},"data":{"a":"not base64 ` + plantedValue + `"}}`
	if got := a.must(http.StatusBadRequest, "POST", secretsPath, bad); strings.Contains(string(got.body), plantedValue) {
		t.Errorf("%s", got.body)
	}
}

// TestViewersReadNoSecrets: neither view nor a user without a role reads a Secret in any way; edit does.
func TestViewersReadNoSecrets(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.Edit, "ann")
	a.bind(rbac.View, "vic")
	planted := secret("token", "", map[string]string{"token": plantedValue})
	a.must(http.StatusCreated, "POST", secretsPath, planted, as("ann")...)
	read := a.must(http.StatusOK, "GET", secretsPath+"/token", nil, as("ann")...)
	if !strings.Contains(string(read.body), plantedBase64) {
		t.Errorf("%s", read.body)
	}
	patch := append(as("vic"), "Content-Type", "application/merge-patch+json")
	for _, got := range []answer{
		a.do("GET", secretsPath+"/token", nil, as("vic")...),
		a.do("GET", secretsPath, nil, as("vic")...),
		a.do("GET", "/api/v1/secrets", nil, as("vic")...),
		a.do("GET", secretsPath+"?watch=true&timeoutSeconds=1", nil, as("vic")...),
		a.do("GET", secretsPath+"?labelSelector=a", nil, as("vic")...),
		a.do("GET", secretsPath+"/token", nil, append(as("vic"), "Accept",
			"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")...),
		a.do("PATCH", secretsPath+"/token?dryRun=All", `{"metadata":{"labels":{"a":"b"}}}`, patch...),
		a.do("DELETE", secretsPath+"/token?dryRun=All", nil, as("vic")...),
		a.do("GET", secretsPath+"/token", nil, as("eve")...),
		a.do("GET", strings.Replace(secretsPath, "g10", "g11", 1), nil, as("ann")...),
	} {
		if got.code != http.StatusForbidden || strings.Contains(string(got.body), plantedBase64) {
			t.Errorf("%d %.300s", got.code, got.body)
		}
	}
}
