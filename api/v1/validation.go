package v1

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/netaddr"
)

// Bounds of an object. Lists and maps that are longer than any machine needs are refused
// by their length, since validating a hundred thousand addresses takes seconds.
const (
	// MaxItems bounds the lists of a spec, except spec.layers (MaxLayers).
	MaxItems = 1000
	// MaxKeys bounds maps (labels, annotations, the data of a ConfigMap) and the lists in
	// metadata: finalizers and owner references.
	MaxKeys = 256
)

// AnnotationLastApplied contains the whole object after a client-side kubectl apply. It
// does not count against the size limit of annotations: otherwise a config of more than
// 256 KiB could not be applied.
const AnnotationLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// FilterAnnotationSize removes the error about the size of annotations if they are within
// the limit without AnnotationLastApplied.
func FilterAnnotationSize(annotations map[string]string, errs field.ErrorList) field.ErrorList {
	last, ok := annotations[AnnotationLastApplied]
	if !ok {
		return errs
	}
	size := -len(last) - len(AnnotationLastApplied)
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	if size > apivalidation.TotalAnnotationSizeLimitB {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return err.Type == field.ErrorTypeTooLong && err.Field == "metadata.annotations"
	})
}

// validateMeta checks the metadata of an object: its lengths first, then its contents.
func validateMeta(meta *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	path := field.NewPath("metadata")
	if errs := slices.Concat(
		tooMany(path.Child("labels"), len(meta.Labels), MaxKeys),
		tooMany(path.Child("annotations"), len(meta.Annotations), MaxKeys),
		tooMany(path.Child("finalizers"), len(meta.Finalizers), MaxKeys),
		tooMany(path.Child("ownerReferences"), len(meta.OwnerReferences), MaxKeys),
	); len(errs) > 0 {
		return errs
	}
	return FilterAnnotationSize(meta.Annotations, apivalidation.ValidateObjectMeta(meta, namespaced, name, path))
}

// annotationPath returns the path of an annotation.
func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// tooMany returns an error if a list or a map of n entries has more than max.
func tooMany(path *field.Path, n, max int) field.ErrorList {
	if n <= max {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, max)}
}

// tooLong returns an error if a value has more than max bytes.
func tooLong(path *field.Path, value string, max int) field.ErrorList {
	if len(value) <= max {
		return nil
	}
	return field.ErrorList{field.TooLong(path, "", max)}
}

// required returns an error if a value is empty.
func required(path *field.Path, value, detail string) field.ErrorList {
	if value != "" {
		return nil
	}
	return field.ErrorList{field.Required(path, detail)}
}

// oneOf checks that a value is one of the allowed values.
func oneOf(path *field.Path, value string, values ...string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "want "+strings.Join(values, " or "))}
	}
	return emptyOrOneOf(path, value, values...)
}

// ValidateState checks the state of a host that a client writes; "" is Available.
func ValidateState(state string, path *field.Path) field.ErrorList {
	return emptyOrOneOf(path, state, StateAvailable, StateBooting, StateProvisioning, StateProvisioned, StateError)
}

// emptyOrOneOf checks that a value is empty or one of the allowed values.
func emptyOrOneOf(path *field.Path, value string, values ...string) field.ErrorList {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}

// validateLabels checks label keys and values. Each error has the path of its key.
func validateLabels(path *field.Path, labels map[string]string) field.ErrorList {
	if errs := tooMany(path, len(labels), MaxKeys); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, msg))
		}
		for _, msg := range validation.IsValidLabelValue(labels[key]) {
			errs = append(errs, field.Invalid(path.Key(key), labels[key], msg))
		}
	}
	return errs
}

// parsed returns the error of a parser as a field error. An empty value is valid.
func parsed[T any](path *field.Path, value string, parse func(string) (T, error)) field.ErrorList {
	if value == "" {
		return nil
	}
	if _, err := parse(value); err != nil {
		return field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	return nil
}

// parsedSecret is parsed for a value that must not appear in the error.
func parsedSecret[T any](path *field.Path, value string, parse func(string) (T, error)) field.ErrorList {
	errs := parsed(path, value, parse)
	for _, err := range errs {
		err.BadValue = field.OmitValueType{}
	}
	return errs
}

// parsedEach applies parsed to the items of a list of at most MaxItems. An empty item is
// an error.
func parsedEach[T any](path *field.Path, values []string, parse func(string) (T, error)) field.ErrorList {
	if errs := tooMany(path, len(values), MaxItems); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for i, value := range values {
		errs = append(errs, required(path.Index(i), value, "must not be empty")...)
		errs = append(errs, parsed(path.Index(i), value, parse)...)
	}
	return errs
}

// hostIP parses the IP address of one machine.
func hostIP(value string) (netip.Addr, error) {
	ip, err := netaddr.ParseIP(value)
	if err == nil && (ip.IsUnspecified() || ip.IsMulticast()) {
		return ip, fmt.Errorf("%q is not the address of one machine", value)
	}
	return ip, err
}

// scriptSafe refuses values that could end or extend a line of an iPXE, GRUB or shell
// script: control characters (newlines included) and "${".
func scriptSafe(value string) (string, error) {
	switch {
	case !utf8.ValidString(value):
		return "", fmt.Errorf("must be valid UTF-8")
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return "", fmt.Errorf("must be one line without control characters")
	case strings.Contains(value, "${"):
		return "", fmt.Errorf("must not contain \"${\": boot scripts would expand it")
	}
	return value, nil
}

// kernelArg is scriptSafe for a kernel argument, which may contain ${glowplug}: the server
// replaces it by its own URL before it writes a script.
func kernelArg(value string) (string, error) {
	if _, err := scriptSafe(strings.ReplaceAll(value, "${glowplug}", "")); err != nil {
		return "", fmt.Errorf("%w (only ${glowplug} is known here: this server's URL)", err)
	}
	return value, nil
}

// reference parses "name" or "namespace/name".
func reference(value string) (string, error) {
	namespace, name, qualified := strings.Cut(value, "/")
	if !qualified {
		name = value
	} else if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return "", fmt.Errorf("want \"name\" or \"namespace/name\"; the namespace: %s", msgs[0])
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return "", fmt.Errorf("want \"name\" or \"namespace/name\"; the name: %s", msgs[0])
	}
	return value, nil
}

var iqnForm = regexp.MustCompile(
	`^(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+(:[A-Za-z0-9.:_-]+)?|eui\.[0-9A-Fa-f]{16}|naa\.([0-9A-Fa-f]{16}|[0-9A-Fa-f]{32}))$`)

// iscsiName checks the name of an iSCSI node (RFC 7143, section 4.2.7).
func iscsiName(value string) (string, error) {
	if len(value) > 223 || !iqnForm.MatchString(value) {
		return "", fmt.Errorf("want an iSCSI name such as iqn.2000-02.com.example:cdrom-1, at most 223 characters")
	}
	return value, nil
}

// matching returns a parser that accepts the values that match a pattern.
func matching(pattern *regexp.Regexp, message string) func(string) (string, error) {
	return func(value string) (string, error) {
		if !pattern.MatchString(value) {
			return "", errors.New(message)
		}
		return value, nil
	}
}
