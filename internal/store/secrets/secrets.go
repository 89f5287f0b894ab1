// Package secrets has the Secrets in memory, as their bucket has them, for those parts of the server that
// use their values.
package secrets

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

// Secrets follows the bucket of Secrets. It is safe for concurrent use.
type Secrets struct {
	log *slog.Logger

	mu      sync.RWMutex
	secrets map[types.NamespacedName]*v1.Secret
}

// New returns Secrets without any. Their Observer fills them.
func New(log *slog.Logger) *Secrets {
	return &Secrets{log: cmp.Or(log, slog.New(slog.DiscardHandler)), secrets: map[types.NamespacedName]*v1.Secret{}}
}

// Observer returns the observer of the bucket.
func (s *Secrets) Observer() kvstore.Observer {
	observer := &objects.Observer[v1.Secret]{
		Lock:  &s.mu,
		Clear: func() { clear(s.secrets) },
		Put: func(at types.NamespacedName, secret *v1.Secret) {
			if secret == nil {
				delete(s.secrets, at)
				return
			}
			s.secrets[at] = secret
		},
		Unreadable: func(item kvstore.Item, _ error) { // the error may quote a value
			s.log.Error("a stored Secret cannot be read: apply it again", "object", kinds.Secrets+"/"+item.Key)
		},
	}
	return observer.Follow()
}

// Missing returns the reason why a Secret cannot be used, or nil. The name "" is none.
func (s *Secrets) Missing(namespace, name string) error {
	if name == "" {
		return nil
	}
	_, err := s.With(nil).get(namespace, name)
	return err
}

// Value returns the value of a key of a Secret. No error quotes a value.
func (s *Secrets) Value(namespace, name, key string) (string, error) {
	return s.With(nil).Value(namespace, name, key)
}

// CHAP returns the credentials of an image in a namespace: those in its object, or in the Secret that it
// names. No error quotes a value.
func (s *Secrets) CHAP(namespace string, chap *v1.CHAP) (v1.CHAP, error) {
	return s.With(nil).CHAP(namespace, chap)
}

// View is the Secrets with some that count as stored. It is safe for concurrent use.
type View struct {
	stored  *Secrets
	changed map[types.NamespacedName]*v1.Secret
}

// With returns the Secrets as if those in changed, by name, were stored; a nil Secret is deleted.
func (s *Secrets) With(changed map[types.NamespacedName]*v1.Secret) View { return View{s, changed} }

func (v View) get(namespace, name string) (*v1.Secret, error) {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	secret, changes := v.changed[at]
	if !changes {
		v.stored.mu.RLock()
		defer v.stored.mu.RUnlock()
		secret = v.stored.secrets[at]
	}
	if secret != nil {
		return secret, nil
	}
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q is no name of a Secret: give the name alone, of one in the namespace %s", name,
			namespace)
	}
	return nil, fmt.Errorf("there is no Secret %s/%s", namespace, name)
}

// Value returns the value of a key of a Secret. No error quotes a value.
func (v View) Value(namespace, name, key string) (string, error) {
	secret, err := v.get(namespace, name)
	if err != nil {
		return "", err
	}
	value, ok := secret.Data[key]
	switch {
	case !ok:
		return "", fmt.Errorf("the Secret %s/%s has no key %q", namespace, name, key)
	case len(value) > maxText:
		return "", fmt.Errorf("the value of %q in the Secret %s/%s is larger than 256 KiB", key, namespace, name)
	case !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0:
		return "", fmt.Errorf("the value of %q in the Secret %s/%s is no text: store it in base64", key, namespace,
			name)
	}
	return string(value), nil
}

// maxText bounds a value that is used as text, in bytes: that of a value in a template.
const maxText = 256 << 10

// chapKeys are the keys of the fields of CHAP credentials: ours, and that of the Secrets that Kubernetes uses for
// its own iSCSI volumes.
var chapKeys = [4][2]string{
	{v1.SecretUsername, "node.session.auth.username"}, {v1.SecretPassword, "node.session.auth.password"},
	{v1.SecretMutualUsername, "node.session.auth.username_in"},
	{v1.SecretMutualPassword, "node.session.auth.password_in"},
}

// CHAP returns the credentials of an image in a namespace: those in its object, or in the Secret that it
// names. No error quotes a value.
func (v View) CHAP(namespace string, chap *v1.CHAP) (v1.CHAP, error) {
	if chap.SecretName == "" {
		return *chap, nil
	}
	secret, err := v.get(namespace, chap.SecretName)
	if err != nil {
		return v1.CHAP{}, err
	}
	var values [len(chapKeys)]string
	for i, keys := range chapKeys {
		for _, key := range keys {
			values[i] = cmp.Or(values[i], string(secret.Data[key]))
			if strings.HasSuffix(values[i], "\n") {
				return v1.CHAP{}, fmt.Errorf("the value of %q in the Secret %s/%s ends in a line break: make it without one",
					key, namespace, chap.SecretName)
			}
		}
	}
	found := v1.CHAP{
		Username: values[0], Password: values[1], MutualUsername: values[2], MutualPassword: values[3],
	}
	if errs := v1.ValidateCHAP(field.NewPath("data"), &found); len(errs) > 0 {
		return v1.CHAP{}, fmt.Errorf("the Secret %s/%s has no credentials for CHAP: %w", namespace, chap.SecretName,
			errs.ToAggregate())
	}
	return found, nil
}
