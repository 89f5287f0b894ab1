package v1

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxConfigMapBytes is the maximum size of all values of a ConfigMap together, as in
// Kubernetes.
const MaxConfigMapBytes = 1 << 20

// ValidateConfigMap checks a ConfigMap by the rules of Kubernetes, and that data and
// binaryData have at most MaxKeys keys each.
func ValidateConfigMap(cm *ConfigMap) field.ErrorList {
	errs := validateMeta(&cm.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	many := append(tooMany(field.NewPath("data"), len(cm.Data), MaxKeys), tooMany(field.NewPath("binaryData"),
		len(cm.BinaryData), MaxKeys)...)
	if len(many) > 0 {
		return append(errs, many...)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		size += len(cm.Data[key])
		path := field.NewPath("data").Key(key)
		errs = append(errs, validateConfigMapKey(path, key)...)
		if _, both := cm.BinaryData[key]; both {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		size += len(cm.BinaryData[key])
		errs = append(errs, validateConfigMapKey(field.NewPath("binaryData").Key(key), key)...)
	}
	if size > MaxConfigMapBytes {
		errs = append(errs, field.TooLong(field.NewPath(""), "", MaxConfigMapBytes))
	}
	return errs
}

// ValidateConfigMapUpdate checks a new version of a ConfigMap: an immutable one does not
// change.
func ValidateConfigMapUpdate(cm, old *ConfigMap) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&cm.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if old.Immutable != nil && *old.Immutable {
		const reason = "field is immutable when `immutable` is set"
		if cm.Immutable == nil || !*cm.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), reason))
		}
		if !maps.Equal(cm.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), reason))
		}
		if !maps.EqualFunc(cm.BinaryData, old.BinaryData, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), reason))
		}
	}
	return append(errs, ValidateConfigMap(cm)...)
}

func validateConfigMapKey(path *field.Path, key string) field.ErrorList {
	if msgs := validation.IsConfigMapKey(key); len(msgs) > 0 {
		return field.ErrorList{field.Invalid(path, key, strings.Join(msgs, "; "))}
	}
	return nil
}
