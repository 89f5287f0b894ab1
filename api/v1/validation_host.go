package v1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
)

// maxRearmBytes is the maximum length of AnnotationRearm, whose value is copied to the
// status.
const maxRearmBytes = 128

// validateScript checks the iPXE script of a host or a namespace; an empty one is valid.
func validateScript(path *field.Path, source string) field.ErrorList {
	if source == "" {
		return nil
	}
	if _, err := ipxe.ParseTemplate(source); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}

// ValidateBareMetalHost checks the fields of a host. Another host with the same addresses
// is not an error: it leads to a warning.
func ValidateBareMetalHost(host *BareMetalHost) field.ErrorList {
	errs := validateMeta(&host.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	path := field.NewPath("spec")
	spec := &host.Spec

	errs = append(errs, parsed(path.Child("bootMACAddress"), spec.BootMACAddress, netaddr.ParseMAC)...)
	errs = append(errs, parsed(path.Child("ip"), spec.IP, hostIP)...)
	errs = append(errs, parsed(path.Child("hostname"), spec.Hostname, netaddr.ParseHostname)...)
	errs = append(errs, validateLabels(spec.Labels, path.Child("labels"))...)
	errs = append(errs, validateNICs(spec.NICs, path.Child("nics"))...)
	errs = append(errs, parsed(path.Child("systemUUID"), spec.SystemUUID, netaddr.ParseUUID)...)
	errs = append(errs, parsedEach(path.Child("bootSources"), spec.BootSources, netaddr.ParsePrefix)...)
	errs = append(errs, parsed(path.Child("image"), spec.Image, reference)...)
	if spec.BootMode != "" {
		errs = append(errs, oneOf(path.Child("bootMode"), spec.BootMode, BootOnce, BootForever)...)
	}
	errs = append(errs, parsedEach(path.Child("kernelArgs"), spec.KernelArgs, kernelArg)...)
	errs = append(errs, validateScript(path.Child("ipxe"), spec.IPXE)...)
	if rearm := host.Annotations[AnnotationRearm]; len(rearm) > maxRearmBytes {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "annotations").Key(AnnotationRearm), "", maxRearmBytes))
	}
	if spec.BMC != nil {
		at := path.Child("bmc")
		errs = append(errs, parsed(at.Child("address"), spec.BMC.Address, scriptSafe)...)
		errs = append(errs, parsed(at.Child("username"), spec.BMC.Username, scriptSafe)...)
	}
	return errs
}

// validateNICs checks the network cards of a host.
func validateNICs(nics []NIC, path *field.Path) field.ErrorList {
	if errs := tooMany(path, len(nics), MaxItems); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for i, nic := range nics {
		at := path.Index(i)
		if nic == (NIC{}) {
			errs = append(errs, field.Required(at, "a card has a mac, an ip or a hostname"))
		}
		errs = append(errs, parsed(at.Child("mac"), nic.MAC, netaddr.ParseMAC)...)
		errs = append(errs, parsed(at.Child("ip"), nic.IP, hostIP)...)
		errs = append(errs, parsed(at.Child("hostname"), nic.Hostname, netaddr.ParseHostname)...)
	}
	return errs
}

// ValidateBareMetalHostUpdate checks a new version of a host.
func ValidateBareMetalHostUpdate(host, old *BareMetalHost) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&host.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateBareMetalHost(host)...)
}
