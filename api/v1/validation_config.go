package v1

import (
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/kickstart"
	"glowplug/internal/domain/netaddr"
)

// formats lists the formats of each type.
var formats = map[string][]string{
	TypeIgnition:  {FormatButane, FormatIgnition},
	TypeKickstart: {FormatKickstart},
}

// ValidateIgnitionConfig checks the fields of a config. It does not compile the source: a
// config whose source does not compile is stored with phase Error.
func ValidateIgnitionConfig(config *IgnitionConfig) field.ErrorList {
	path, spec := field.NewPath("spec"), &config.Spec
	wanted := []string{FormatButane, FormatIgnition, FormatKickstart}
	if ofType := formats[spec.Type]; spec.Format == "" && ofType != nil {
		wanted = ofType
	}
	formatErrs := append(oneOf(path.Child("type"), spec.Type, TypeIgnition, TypeKickstart),
		oneOf(path.Child("format"), spec.Format, wanted...)...)
	if len(formatErrs) == 0 && !slices.Contains(formats[spec.Type], spec.Format) {
		formatErrs = append(formatErrs, field.Invalid(path.Child("format"), spec.Format, fmt.Sprintf(
			"does not go with type %q, whose format is %s", spec.Type, strings.Join(formats[spec.Type], " or "))))
	}
	version := path.Child("kickstartVersion")
	versionErrs := emptyOrOneOf(version, spec.KickstartVersion, kickstart.Versions()...)
	if spec.KickstartVersion != "" && spec.Type == TypeIgnition {
		versionErrs = append(versionErrs, field.Invalid(version, spec.KickstartVersion,
			"is for configs of type \"kickstart\" alone"))
	}
	selector, at := &spec.Selector, path.Child("selector")
	return slices.Concat(
		validateMeta(&config.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		formatErrs,
		emptyOrOneOf(annotationPath(AnnotationRejectBroken), config.Annotations[AnnotationRejectBroken], "true", "false"),
		required(path.Child("config"), spec.Config, "a config without a source configures nothing"),
		tooLong(path.Child("config"), spec.Config, MaxConfigBytes),
		versionErrs,
		validateLayers(path.Child("layers"), config),
		validateLabels(at.Child("matchLabels"), selector.MatchLabels),
		validateExpressions(at.Child("matchExpressions"), selector.MatchExpressions),
		parsedEach(at.Child("matchHostnames"), selector.MatchHostnames, netaddr.ParseHostname),
		parsedEach(at.Child("matchIPs"), selector.MatchIPs, netaddr.ParsePrefix),
		parsedEach(at.Child("matchMACs"), selector.MatchMACs, parseMACOrPrefix),
	)
}

// maxExpressions bounds spec.selector.matchExpressions.
const maxExpressions = 64

// validateExpressions checks requirements by the rules of Kubernetes.
func validateExpressions(path *field.Path, expressions []metav1.LabelSelectorRequirement) field.ErrorList {
	errs := tooMany(path, len(expressions), maxExpressions)
	for i := range expressions[:min(len(expressions), maxExpressions)] {
		at := path.Index(i)
		if tooLong := tooMany(at.Child("values"), len(expressions[i].Values), MaxKeys); tooLong != nil {
			errs = append(errs, tooLong...)
			continue
		}
		errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(expressions[i],
			metav1validation.LabelSelectorValidationOptions{}, at)...)
	}
	return errs
}

// parseMACOrPrefix reads a hardware address, or a prefix with a star.
func parseMACOrPrefix(value string) (any, error) {
	if strings.HasSuffix(value, "*") {
		return netaddr.ParseMACPrefix(value)
	}
	mac, err := netaddr.ParseMAC(value)
	if err != nil {
		return nil, fmt.Errorf("%w, or a prefix with a star such as aa:bb:cc:*", err)
	}
	return mac, nil
}

// validateLayers checks the names of layers. Whether they exist is not checked here.
func validateLayers(path *field.Path, config *IgnitionConfig) field.ErrorList {
	layers := config.Spec.Layers
	if len(layers) > 0 && config.Spec.Type != TypeIgnition {
		return field.ErrorList{field.Forbidden(path, "only a config of type ignition is merged over layers")}
	}
	if errs := tooMany(path, len(layers), MaxLayers); errs != nil {
		return errs
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, layer := range layers {
		at := path.Index(i).Child("name")
		switch {
		case layer.Name == "":
			errs = append(errs, field.Required(at, "the name of an IgnitionConfig of this namespace"))
		case len(layer.Name) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.TooLong(at, "", validation.DNS1123SubdomainMaxLength))
		case layer.Name == config.Name:
			errs = append(errs, field.Invalid(at, layer.Name, "a config is no layer of itself"))
		case seen[layer.Name]:
			errs = append(errs, field.Duplicate(at, layer.Name))
		default:
			for _, message := range apivalidation.NameIsDNSSubdomain(layer.Name, false) {
				errs = append(errs, field.Invalid(at, layer.Name, message))
			}
		}
		seen[layer.Name] = true
	}
	return errs
}
