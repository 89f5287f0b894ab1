package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kms/pkg/service"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The library's feature gates and queues start these once a process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
}

var (
	secrets = schema.GroupResource{Resource: "secrets"}
	roles   = schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}
)

const (
	at = "/secrets/default/chap"
	// keyA and keyB are 32 bytes in base64.
	keyA = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
	keyB = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
)

// load reads a file with providers for secrets.
func load(t *testing.T, resources, providers string) *Keys {
	t.Helper()
	keys, err := tryLoad(t, resources, providers)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func tryLoad(t *testing.T, resources, providers string) (*Keys, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"+
		"resources:\n- resources: [%s]\n  providers: [%s]\n", resources, providers)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), path, "test")
}

func TestProviders(t *testing.T) {
	endpoint := startKMS(t)
	for name, c := range map[string]struct{ providers, key string }{
		"aesgcm":    {"aesgcm: {keys: [{name: a, secret: " + keyA + "}]}", "k8s:enc:aesgcm:v1:a:"},
		"aescbc":    {"aescbc: {keys: [{name: a, secret: " + keyA + "}]}", "k8s:enc:aescbc:v1:a:"},
		"secretbox": {"secretbox: {keys: [{name: a, secret: " + keyA + "}]}", "k8s:enc:secretbox:v1:a:"},
		"kms":       {"kms: {apiVersion: v2, name: vault, endpoint: " + endpoint + "}", "k8s:enc:kms:v2:vault:"},
		"identity":  {"identity: {}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := load(t, "secrets", "{"+c.providers+"}").Of(secrets)
			stored, err := c1.Encrypt(t.Context(), at, []byte("plain"))
			if err != nil || Key(stored) != c.key || bytes.Contains(stored, []byte("plain")) != (c.key == "") {
				t.Fatalf("%q, %v", stored, err)
			}
			plain, stale, err := c1.Decrypt(t.Context(), at, stored)
			if err != nil || stale || string(plain) != "plain" {
				t.Errorf("%q, stale %v, %v", plain, stale, err)
			}
			rotated := load(t, "secrets", "{aesgcm: {keys: [{name: b, secret: "+keyB+"}]}}, {"+c.providers+"}").Of(secrets)
			plain, stale, err = rotated.Decrypt(t.Context(), at, stored)
			if err != nil || !stale || string(plain) != "plain" {
				t.Errorf("after a rotation: %q, stale %v, %v", plain, stale, err)
			}
		})
	}
}

func TestDecryptNamesTheKey(t *testing.T) {
	const one = "{aesgcm: {keys: [{name: a, secret: " + keyA + "}]}}"
	stored, err := load(t, "secrets", one).Of(secrets).Encrypt(t.Context(), at, []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cipher *Cipher
		at     string
		stored []byte
		want   KeyError
	}{
		"no file":          {(*Keys)(nil).Of(secrets), at, stored, KeyError{at, "aesgcm", "a", true}},
		"another resource": {load(t, "configmaps", one).Of(secrets), at, stored, KeyError{at, "aesgcm", "a", true}},
		"another key": {load(t, "secrets", "{aesgcm: {keys: [{name: b, secret: "+keyB+"}]}}").Of(secrets), at, stored,
			KeyError{at, "aesgcm", "a", true}},
		"another provider": {load(t, "secrets",
			"{secretbox: {keys: [{name: a, secret: "+keyA+"}]}}, {identity: {}}").Of(secrets), at, stored, KeyError{at, "aesgcm", "a", true}},
		"same name": {load(t, "secrets", "{aesgcm: {keys: [{name: a, secret: "+keyB+"}]}}").Of(secrets), at, stored,
			KeyError{at, "aesgcm", "a", false}},
		"another object": {load(t, "secrets", one).Of(secrets), "/secrets/default/other", stored,
			KeyError{"/secrets/default/other", "aesgcm", "a", false}},
		"not encrypted": {load(t, "secrets", one).Of(secrets), at, []byte("{}"), KeyError{StorageKey: at, Missing: true}},
		"cut":           {load(t, "secrets", one).Of(secrets), at, stored[:25], KeyError{at, "aesgcm", "a", false}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := c.cipher.Decrypt(t.Context(), c.at, c.stored)
			got := new(KeyError)
			if !errors.As(err, &got) || *got != c.want {
				t.Fatalf("%#v, want %#v", err, c.want)
			}
			text := err.Error()
			if strings.Contains(text, keyA) || strings.Contains(text, keyB) || !strings.Contains(text, c.at) {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

// A KMS plugin that is away is no reason to give up: it may come back.
func TestKMSThatIsAwayIsNoMissingKey(t *testing.T) {
	endpoint := startKMS(t)
	provider := "{kms: {apiVersion: v2, name: vault, timeout: 100ms, endpoint: " + endpoint + "}}"
	keys := load(t, "secrets", provider)
	stored, err := keys.Of(secrets).Encrypt(t.Context(), at, []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	if checks := keys.HealthChecks(); len(checks) != 1 {
		t.Errorf("%d health checks", len(checks))
	}
	away := strings.Replace(provider, endpoint, endpoint+".away", 1)
	_, _, err = load(t, "secrets", away).Of(secrets).Decrypt(t.Context(), at, stored)
	if err == nil || errors.As(err, new(*KeyError)) {
		t.Errorf("%v", err)
	}
	other := strings.Replace(provider, "vault", "other", 1)
	_, _, err = load(t, "secrets", other).Of(secrets).Decrypt(t.Context(), at, stored)
	if !errors.As(err, new(*KeyError)) {
		t.Errorf("%v of a plugin that the file does not name", err)
	}
}

func TestUnknownResources(t *testing.T) {
	keys := load(t, "secrets, deployments.apps, '*.batch'", "{identity: {}}")
	got, want := keys.Unknown([]schema.GroupResource{secrets, roles}), []string{"*.batch", "deployments.apps"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := load(t, "'*.*'", "{identity: {}}").Unknown([]schema.GroupResource{secrets}); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestMakeMakesOneKeyForAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pki", OwnFile)
	if made, err := Make(path); err != nil || !made {
		t.Fatal(made, err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if made, err := Make(path); err != nil || made {
		t.Errorf("made again: %v, %v", made, err)
	}
	if second, _ := os.ReadFile(path); !bytes.Equal(first, second) {
		t.Error("the second start replaced the key")
	}
	keys, err := Load(t.Context(), path, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupResource{secrets, roles} {
		stored, err := keys.Of(resource).Encrypt(t.Context(), at, []byte("plain"))
		if err != nil || !strings.HasPrefix(Key(stored), "k8s:enc:secretbox:v1:key-") {
			t.Errorf("%q, %v", Key(stored), err)
		}
		if _, stale, err := keys.Of(resource).Decrypt(t.Context(), at, []byte("{}")); err != nil || !stale {
			t.Errorf("a value of a store that was not encrypted: stale %v, %v", stale, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for name, providers := range map[string]string{
		"short key": "{aesgcm: {keys: [{name: a, secret: YWJj}]}}",
		"no key":    "{secretbox: {keys: []}}",
		"unknown":   "{rot13: {}}",
		"none":      "",
	} {
		if _, err := tryLoad(t, "secrets", providers); err == nil || strings.Contains(err.Error(), "YWJj") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// startKMS serves the protocol of KMS plugins. A real key service cannot be had in a test: this one
// reverses the key that it is given.
func startKMS(t *testing.T) (endpoint string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kms.sock")
	server := service.NewGRPCService(socket, time.Second, reversing{})
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Shutdown()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return "unix://" + socket
		}
	}
	t.Fatal("the plugin does not start")
	return ""
}

type reversing struct{}

func (reversing) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	reversed := slices.Clone(data)
	slices.Reverse(reversed)
	return &service.EncryptResponse{Ciphertext: reversed, KeyID: "reversing"}, nil
}

func (reversing) Decrypt(_ context.Context, _ string, req *service.DecryptRequest) ([]byte, error) {
	plain := slices.Clone(req.Ciphertext)
	slices.Reverse(plain)
	return plain, nil
}

func (reversing) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "reversing"}, nil
}
