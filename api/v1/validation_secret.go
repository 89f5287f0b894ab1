package v1

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxSecretBytes is the maximum size of all values of a Secret together, as in Kubernetes.
const MaxSecretBytes = 1 << 20

// keysOf are the keys that a Secret of a type needs: one of them for basic-auth, else all.
var keysOf = map[string][]string{
	SecretBasicAuth:        {SecretUsername, SecretPassword},
	SecretSSHAuth:          {"ssh-privatekey"},
	SecretTLS:              {"tls.crt", "tls.key"},
	SecretDockerConfigJSON: {".dockerconfigjson"},
	SecretDockerConfig:     {".dockercfg"},
}

// ValidateSecret checks a Secret by the rules of Kubernetes, and that data has at most MaxKeys keys. No error
// quotes a value.
func ValidateSecret(secret *Secret) field.ErrorList {
	data := field.NewPath("data")
	errs := validateMeta(&secret.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	if many := tooMany(data, len(secret.Data), MaxKeys); many != nil {
		return append(errs, many...)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		size += len(secret.Data[key])
		errs = append(errs, validateConfigMapKey(data.Key(key), key)...)
	}
	if size > MaxSecretBytes {
		errs = append(errs, field.TooLong(data, "", MaxSecretBytes))
	}
	return append(errs, validateSecretKeys(data, secret)...)
}

// validateSecretKeys checks that a Secret has the keys of its type.
func validateSecretKeys(data *field.Path, secret *Secret) (errs field.ErrorList) {
	if secret.Type == "kubernetes.io/service-account-token" {
		return field.ErrorList{field.Invalid(field.NewPath("type"), secret.Type,
			"the server stores no tokens of ServiceAccounts: make one with kubectl create token")}
	}
	keys := keysOf[secret.Type]
	has := func(key string) bool { _, ok := secret.Data[key]; return ok }
	if secret.Type == SecretBasicAuth {
		if !slices.ContainsFunc(keys, has) {
			errs = append(errs, field.Required(data,
				"a Secret of the type "+secret.Type+" has a username or a password"))
		}
		return errs
	}
	for _, key := range keys {
		if !has(key) {
			errs = append(errs, field.Required(data.Key(key), "a Secret of the type "+secret.Type+" has it"))
		}
	}
	if secret.Type == SecretDockerConfigJSON || secret.Type == SecretDockerConfig {
		if value := secret.Data[keys[0]]; has(keys[0]) && !json.Valid(value) {
			errs = append(errs, field.Invalid(data.Key(keys[0]), field.OmitValueType{}, "is not JSON"))
		}
	}
	return errs
}

// ValidateSecretUpdate checks that a new version of a Secret has the same type, and that one of an immutable
// Secret is equal to the old one.
func ValidateSecretUpdate(secret, old *Secret) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(secret.Type, old.Type, field.NewPath("type"))
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if secret.Immutable == nil || !*secret.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), isImmutable))
	}
	if !maps.EqualFunc(secret.Data, old.Data, bytes.Equal) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), isImmutable))
	}
	return errs
}

// validateSecretName checks the name of a Secret, "" for none, beside which no credentials are given.
func validateSecretName(path *field.Path, name, given string) (errs field.ErrorList) {
	if name == "" {
		return nil
	}
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if given != "" {
		errs = append(errs, field.Forbidden(path, "the Secret has the credentials: leave out the other fields"))
	}
	return errs
}

// isImmutable is Kubernetes' reason against a change of an immutable object.
const isImmutable = "field is immutable when `immutable` is set"
