package secrets

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// with returns Secrets with one, "chap" in the namespace rack.
func with(t *testing.T, data map[string]string) *Secrets {
	t.Helper()
	secret := v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "rack", Name: "chap"}, StringData: data}
	v1.SetDefaultsSecret(&secret)
	value, err := json.Marshal(&secret)
	if err != nil {
		t.Fatal(err)
	}
	s := New(nil)
	s.Observer().Load([]kvstore.Item{{Key: "rack/chap", Value: value}})
	return s
}

func TestCredentialsOfAnImage(t *testing.T) {
	const password = "planted-one-4411"
	named := &v1.CHAP{SecretName: "chap"}
	own := &v1.CHAP{Username: "rack", Password: password}
	mutual := v1.CHAP{Username: "rack", Password: password, MutualUsername: "target", MutualPassword: "other"}
	for name, c := range map[string]struct {
		data      map[string]string
		namespace string
		chap      *v1.CHAP
		want      v1.CHAP
		err       string
	}{
		"in the object": {nil, "rack", own, *own, ""},
		"basic-auth":    {map[string]string{"username": "rack", "password": password}, "rack", named, *own, ""},
		"iscsi-chap of Kubernetes": {map[string]string{
			"node.session.auth.username": "rack", "node.session.auth.password": password,
			"node.session.auth.username_in": "target", "node.session.auth.password_in": "other",
		}, "rack", named, mutual, ""},
		"another namespace": {map[string]string{"username": "rack", "password": password}, "other", named, v1.CHAP{},
			"there is no Secret other/chap"},
		"no password": {map[string]string{"username": "rack"}, "rack", named, v1.CHAP{}, "data.password: Required"},
		"empty password": {map[string]string{"username": "rack", "password": ""}, "rack", named, v1.CHAP{},
			"data.password: Required"},
		"a line break": {map[string]string{"username": "rack", "password": password + "\n"}, "rack", named, v1.CHAP{},
			"ends in a line break"},
		"the same each way": {map[string]string{"username": "rack", "password": password, "mutualUsername": "t",
			"mutualPassword": password}, "rack", named, v1.CHAP{}, "data.mutualPassword: Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := with(t, c.data).CHAP(c.namespace, c.chap)
			if got != c.want || err == nil != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v, %v; want %+v, %s", got, err, c.want, c.err)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the error quotes the password: %v", err)
			}
		})
	}
}

func TestSecretsFollowTheirBucket(t *testing.T) {
	s := with(t, map[string]string{"username": "rack", "password": "one"})
	if s.Missing("rack", "chap") != nil || s.Missing("rack", "") != nil || s.Missing("rack", "other") == nil {
		t.Error("a Secret is missing, or is not")
	}
	observer := s.Observer()
	observer.Put(kvstore.Item{Key: "rack/chap", Value: []byte(`{"data":{"username":"cmFjaw==","password":"dHdv"}}`)})
	if got, err := s.CHAP("rack", &v1.CHAP{SecretName: "chap"}); err != nil || got.Password != "two" {
		t.Errorf("%+v, %v", got, err)
	}
	observer.Delete("rack/chap", 7)
	if s.Missing("rack", "chap") == nil {
		t.Error("a deleted Secret is still there")
	}
}
