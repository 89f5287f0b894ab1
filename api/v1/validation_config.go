package v1

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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
	errs := validateMeta(&config.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	path := field.NewPath("spec")
	spec := &config.Spec

	typeErrs := oneOf(path.Child("type"), spec.Type, TypeIgnition, TypeKickstart)
	formatErrs := oneOf(path.Child("format"), spec.Format, FormatButane, FormatIgnition, FormatKickstart)
	errs = append(append(errs, typeErrs...), formatErrs...)
	if len(typeErrs)+len(formatErrs) == 0 && len(oneOf(path, spec.Format, formats[spec.Type]...)) > 0 {
		errs = append(errs, field.Invalid(path.Child("format"), spec.Format, fmt.Sprintf(
			"does not go with type %q, whose format is %s", spec.Type, strings.Join(formats[spec.Type], " or "))))
	}
	switch {
	case spec.Config == "":
		errs = append(errs, field.Required(path.Child("config"), "a config without a source configures nothing"))
	case len(spec.Config) > MaxConfigBytes:
		errs = append(errs, field.TooLong(path.Child("config"), "", MaxConfigBytes))
	}
	if version := path.Child("kickstartVersion"); spec.KickstartVersion != "" {
		errs = append(errs, oneOf(version, spec.KickstartVersion, kickstart.Versions()...)...)
		if spec.Type == TypeIgnition {
			errs = append(errs, field.Invalid(version, spec.KickstartVersion, "is for configs of type \"kickstart\" alone"))
		}
	}
	errs = append(errs, validateLayers(config, path.Child("layers"))...)
	return append(errs, validateSelector(&spec.Selector, path.Child("selector"))...)
}

// validateLayers checks the names of layers. Whether they exist is not checked here.
func validateLayers(config *IgnitionConfig, path *field.Path) field.ErrorList {
	layers := config.Spec.Layers
	if len(layers) == 0 {
		return nil
	}
	if config.Spec.Type != TypeIgnition {
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

// ValidateIgnitionConfigUpdate checks a new version of a config.
func ValidateIgnitionConfigUpdate(config, old *IgnitionConfig) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&config.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateIgnitionConfig(config)...)
}

func validateSelector(selector *IgnitionConfigSelector, path *field.Path) field.ErrorList {
	errs := validateLabels(selector.MatchLabels, path.Child("matchLabels"))
	errs = append(errs, parsedEach(path.Child("matchHostnames"), selector.MatchHostnames, netaddr.ParseHostname)...)
	errs = append(errs, parsedEach(path.Child("matchIPs"), selector.MatchIPs, netaddr.ParsePrefix)...)
	return append(errs, parsedEach(path.Child("matchMACs"), selector.MatchMACs, netaddr.ParseMAC)...)
}
