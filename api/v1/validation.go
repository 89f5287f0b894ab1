package v1

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/netaddr"
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

// validateLabels checks label keys and values. Each error has the path of its key.
func validateLabels(labels map[string]string, path *field.Path) field.ErrorList {
	if errs := tooMany(path, len(labels), MaxKeys); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, msg))
		}
		for _, msg := range validation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(path.Key(key), value, msg))
		}
	}
	return errs
}

// parsed returns the error of a parser as a field error. An empty value is valid: the
// caller checks required fields.
func parsed[T any](path *field.Path, value string, parse func(string) (T, error)) field.ErrorList {
	if value == "" {
		return nil
	}
	if _, err := parse(value); err != nil {
		return field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	return nil
}

// parsedEach applies parsed to the items of a list of at most MaxItems. An empty item is
// an error.
func parsedEach[T any](path *field.Path, values []string, parse func(string) (T, error)) field.ErrorList {
	if errs := tooMany(path, len(values), MaxItems); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for i, value := range values {
		if value == "" {
			errs = append(errs, field.Required(path.Index(i), "must not be empty"))
			continue
		}
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
		namespace, name = "", value
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

// oneOf checks that a value is one of the allowed values.
func oneOf(path *field.Path, value string, values ...string) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	if value == "" {
		return field.ErrorList{field.Required(path, "want "+strings.Join(values, " or "))}
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}
