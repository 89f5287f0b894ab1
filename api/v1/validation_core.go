package v1

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/ipxe"
)

// MaxConfigMapBytes is the maximum size of all values of a ConfigMap together, as in
// Kubernetes.
const MaxConfigMapBytes = 1 << 20

// Maximum lengths of the texts of an Event, in bytes.
const (
	maxReasonBytes  = 128
	maxMessageBytes = 4096
)

// ValidateConfigMap checks a ConfigMap by the rules of Kubernetes, and that data and
// binaryData have at most MaxKeys keys each.
func ValidateConfigMap(cm *ConfigMap) field.ErrorList {
	data, binaryData := field.NewPath("data"), field.NewPath("binaryData")
	errs := validateMeta(&cm.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	many := append(tooMany(data, len(cm.Data), MaxKeys), tooMany(binaryData, len(cm.BinaryData), MaxKeys)...)
	if len(many) > 0 {
		return append(errs, many...)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		size += len(cm.Data[key])
		errs = append(errs, validateConfigMapKey(data.Key(key), key)...)
		if _, both := cm.BinaryData[key]; both {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		size += len(cm.BinaryData[key])
		errs = append(errs, validateConfigMapKey(binaryData.Key(key), key)...)
	}
	if size > MaxConfigMapBytes {
		errs = append(errs, field.TooLong(data, "", MaxConfigMapBytes))
	}
	return errs
}

func validateConfigMapKey(path *field.Path, key string) field.ErrorList {
	if msgs := validation.IsConfigMapKey(key); len(msgs) > 0 {
		return field.ErrorList{field.Invalid(path, key, strings.Join(msgs, "; "))}
	}
	return nil
}

// ValidateConfigMapUpdate checks that a new version of an immutable ConfigMap is equal to
// the old one.
func ValidateConfigMapUpdate(cm, old *ConfigMap) field.ErrorList {
	if old.Immutable == nil || !*old.Immutable {
		return nil
	}
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		same bool
	}{
		{"immutable", cm.Immutable != nil && *cm.Immutable},
		{"data", maps.Equal(cm.Data, old.Data)},
		{"binaryData", maps.EqualFunc(cm.BinaryData, old.BinaryData, bytes.Equal)},
	} {
		if !f.same {
			errs = append(errs, field.Forbidden(field.NewPath(f.name), isImmutable))
		}
	}
	return errs
}

// ValidateNamespace checks a namespace, whose name is a DNS-1123 label.
func ValidateNamespace(namespace *Namespace) field.ErrorList {
	annotations := namespace.Annotations
	return slices.Concat(
		validateMeta(&namespace.ObjectMeta, false, apivalidation.ValidateNamespaceName),
		parsedSecret(annotationPath(AnnotationIPXE), annotations[AnnotationIPXE], ipxe.ParseTemplate),
		emptyOrOneOf(annotationPath(AnnotationRejectBroken), annotations[AnnotationRejectBroken], "true", "false"),
		emptyOrOneOf(annotationPath(AnnotationIsland), annotations[AnnotationIsland], "true", "false"),
		emptyOrOneOf(annotationPath(AnnotationIsolated), annotations[AnnotationIsolated], "true", "false"),
		parsed(annotationPath(AnnotationWindow), annotations[AnnotationWindow], parseWindow),
		parsed(annotationPath(AnnotationMaxFetches), annotations[AnnotationMaxFetches], parseFetches),
		parsed(annotationPath(AnnotationInstallDevice), annotations[AnnotationInstallDevice], parseDevice),
		emptyOrOneOf(annotationPath(AnnotationToken), annotations[AnnotationToken], "true", "false"),
	)
}

// ValidateServiceAccount checks a ServiceAccount, which has metadata alone.
func ValidateServiceAccount(account *ServiceAccount) field.ErrorList {
	return validateMeta(&account.ObjectMeta, true, apivalidation.ValidateServiceAccountName)
}

// ValidateEvent checks an event. Its namespace must be that of its involvedObject, or
// "default" for an object without a namespace.
func ValidateEvent(event *Event) field.ErrorList {
	errs := validateMeta(&event.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	about := event.InvolvedObject.Namespace
	if cmp.Or(about, NamespaceDefault) != event.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), about,
			"does not match metadata.namespace"))
	}
	return slices.Concat(errs,
		emptyOrOneOf(field.NewPath("type"), event.Type, EventNormal, EventWarning),
		tooLong(field.NewPath("reason"), event.Reason, maxReasonBytes),
		tooLong(field.NewPath("message"), event.Message, maxMessageBytes),
	)
}
