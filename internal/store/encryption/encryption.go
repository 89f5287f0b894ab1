// Package encryption encrypts the values of the store with the keys of an
// EncryptionConfiguration, the file of kube-apiserver's --encryption-provider-config.
package encryption

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// Keys are the keys of a file. The nil Keys encrypt nothing, and read nothing that is
// encrypted.
type Keys struct {
	transformers encryptionconfig.StaticTransformers
	checks       []healthz.HealthChecker
}

// Load reads a file. Connections to KMS plugins, which need not answer yet, last until ctx
// ends. id is the identity of this server in the library's metrics.
func Load(ctx context.Context, file, id string) (*Keys, error) {
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, id)
	if err != nil {
		return nil, err
	}
	return &Keys{transformers: config.Transformers, checks: config.HealthChecks}, nil
}

// HealthChecks are those of the KMS plugins.
func (k *Keys) HealthChecks() []healthz.HealthChecker {
	if k == nil {
		return nil
	}
	return k.checks
}

// Unknown returns the resources of the file that are not among the known ones, sorted.
func (k *Keys) Unknown(known []schema.GroupResource) (names []string) {
	for resource := range k.transformers {
		isKnown := func(r schema.GroupResource) bool {
			return resource == r || resource.Resource == "*" && (resource.Group == "*" || resource.Group == r.Group)
		}
		if !slices.ContainsFunc(known, isKnown) {
			names = append(names, resource.String())
		}
	}
	slices.Sort(names)
	return names
}

// Of returns the cipher of a resource.
func (k *Keys) Of(resource schema.GroupResource) *Cipher {
	var transformers encryptionconfig.StaticTransformers
	if k != nil {
		transformers = k.transformers
	}
	return &Cipher{transformers.TransformerForResource(resource)}
}

// Cipher encrypts and decrypts the values of a resource.
type Cipher struct{ transformer value.Transformer }

// Encrypt encrypts the value of a storage key with the first provider of the file. A value
// cannot be decrypted under another storage key, but with secretbox and aescbc, which do not bind them.
func (c *Cipher) Encrypt(ctx context.Context, storageKey string, plain []byte) ([]byte, error) {
	encrypted, err := c.transformer.TransformToStorage(ctx, plain, value.DefaultContext(storageKey))
	if err != nil {
		return nil, fmt.Errorf("the KMS plugin does not encrypt %s: %w", storageKey, err) // no other provider fails
	}
	return encrypted, nil
}

// Decrypt returns what Encrypt was given. It may be a part of stored. stale is true where Encrypt uses another
// key now. The error is a *KeyError, or says that a KMS plugin does not answer as it should.
func (c *Cipher) Decrypt(ctx context.Context, storageKey string, stored []byte) (plain []byte, stale bool, err error) {
	plain, stale, err = c.transformer.TransformFromStorage(ctx, stored, value.DefaultContext(storageKey))
	if err == nil {
		return plain, stale, nil
	}
	provider, key := keyOf(stored)
	// The library has no error value for a key that the file does not have.
	missing := err.Error() == noPrefix || provider != kms && strings.Contains(err.Error(), "no matching") ||
		provider != "" && !c.encrypts(ctx, storageKey)
	if provider == kms && !missing {
		return nil, false, fmt.Errorf("the KMS plugin does not decrypt %s: %w", storageKey, err)
	}
	return nil, false, &KeyError{StorageKey: storageKey, Provider: provider, Key: key, Missing: missing}
}

// encrypts reports whether the file has a key for the resource.
func (c *Cipher) encrypts(ctx context.Context, storageKey string) bool {
	_, _, err := c.transformer.TransformFromStorage(ctx, []byte(prefix+":"), value.DefaultContext(storageKey))
	return err != nil && err.Error() == noPrefix
}

// noPrefix is the library's error of a value that begins with none of the prefixes of the file.
const noPrefix = "no matching prefix found"

const (
	// prefix begins every encrypted value: k8s:enc:provider:version:key:…
	prefix = "k8s:enc:"
	kms    = "kms"
)

// Key returns the beginning of an encrypted value that names its provider and its key; "" if
// the value is not encrypted.
func Key(stored []byte) string {
	if !bytes.HasPrefix(stored, []byte(prefix)) {
		return ""
	}
	const fields = 5 // k8s, enc, provider, version, key
	end := 0
	for range fields {
		next := bytes.IndexByte(stored[end:], ':')
		if next < 0 {
			break
		}
		end += next + 1
	}
	return string(stored[:end])
}

// keyOf returns the provider and the name of the key of an encrypted value, both "" if it is
// not encrypted.
func keyOf(stored []byte) (provider, key string) {
	fields := strings.Split(Key(stored), ":")
	if len(fields) > 2 {
		provider = fields[2]
	}
	if len(fields) > 4 {
		key = fields[4]
	}
	return provider, key
}

// KeyError says that a value cannot be decrypted with the keys of the server.
type KeyError struct {
	// StorageKey is that of the value, such as /secrets/default/chap, or of a whole bucket, such as /secrets/.
	StorageKey string
	// Provider is the encryption provider of the value, and Key the name of its key. Both are "" for a value in plain
	// text.
	Provider, Key string
	// Missing is true where the server does not have the key, and false where it has another one
	// under that name, or the value was changed.
	Missing bool
}

func (e *KeyError) Error() string {
	what := e.StorageKey
	if bucket, ok := strings.CutSuffix(what, "/"); ok {
		what = "the store of " + strings.TrimPrefix(bucket, "/")
	}
	switch {
	case e.Provider == "":
		return fmt.Sprintf("%s is not encrypted, and the encryption configuration lets no such value be read: add the "+
			"provider identity as the last one, then encrypt the values with `glowplug rewrite`", what)
	case e.Missing:
		return fmt.Sprintf("%s is encrypted with the key %q of the provider %s, which this server does not have: give the "+
			"file with this key as --encryption-provider-config, or --encrypt with the "+OwnFile+" that it made", what,
			e.Key, e.Provider)
	}
	return fmt.Sprintf("%s cannot be decrypted with the key %q of the provider %s: this server has another key under "+
		"that name, or the value was changed", what, e.Key, e.Provider)
}
