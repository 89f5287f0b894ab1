package v1

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
)

// maxRearmBytes is the maximum length of AnnotationRearm, whose value is copied to the
// status.
const maxRearmBytes = 128

// ValidateBareMetalHost checks the fields of a host. Another host with the same addresses
// is not an error: it leads to a warning.
func ValidateBareMetalHost(host *BareMetalHost) field.ErrorList {
	path, spec := field.NewPath("spec"), &host.Spec
	pxe := cmp.Or(spec.PXE, &HostPXE{})
	bmc := cmp.Or(spec.BMC, &BMC{})
	return slices.Concat(
		validateMeta(&host.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		parsed(path.Child("bootMACAddress"), spec.BootMACAddress, bootMAC),
		parsed(path.Child("ip"), spec.IP, hostIP),
		parsed(path.Child("hostname"), spec.Hostname, netaddr.ParseHostname),
		validateLabels(path.Child("labels"), spec.Labels),
		validateNICs(path.Child("nics"), spec.NICs),
		parsed(path.Child("systemUUID"), spec.SystemUUID, netaddr.ParseUUID),
		parsedEach(path.Child("bootSources"), spec.BootSources, netaddr.ParsePrefix),
		parsed(path.Child("image"), spec.Image, reference),
		emptyOrOneOf(path.Child("bootMode"), spec.BootMode, BootOnce, BootForever),
		parsedEach(path.Child("kernelArgs"), spec.KernelArgs, kernelArg),
		parsedSecret(path.Child("ipxe"), spec.IPXE, ipxe.ParseTemplate),
		tooLong(annotationPath(AnnotationRearm), host.Annotations[AnnotationRearm], maxRearmBytes),
		validateRootDevice(path.Child("rootDeviceHints"), spec.RootDeviceHints, spec.BootMode),
		parsed(path.Child("pxe", "loader"), pxe.Loader, loaderName),
		emptyOrOneOf(path.Child("pxe", "style"), pxe.Style, PXEStyleDirect, PXEStyleServer),
		parsed(path.Child("bmc", "address"), bmc.Address, scriptSafe),
		parsed(path.Child("bmc", "username"), bmc.Username, scriptSafe),
		validateSecretName(path.Child("bmc", "credentialsName"), bmc.CredentialsName, bmc.Username+bmc.Password),
		validateProvisioning(path.Child("provisioning"), spec),
	)
}

// maxLoaderName is the longest name of a loader that fits into a packet.
const maxLoaderName = 127

func loaderName(s string) (string, error) {
	unsafe := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }
	if len(s) > maxLoaderName || strings.ContainsFunc(s, unsafe) || !fs.ValidPath(s) || s == "." {
		return "", fmt.Errorf("%q is not the name of a boot loader, such as ipxe.efi or arm64/snponly.efi", s)
	}
	return s, nil
}

// errBootMAC is the error of a bootMACAddress that is valid in nics.
var errBootMAC = errors.New("the address is none of Ethernet; write it into spec.nics[].mac")

func bootMAC(s string) (netaddr.MAC, error) {
	if netaddr.IsOtherMAC(s) {
		return netaddr.MAC{}, errBootMAC
	}
	return netaddr.ParseMAC(s)
}

// needsConfig is the error of a limit for a machine that needs its config at each boot.
const needsConfig = "a machine with bootMode forever needs its config at each boot; remove the field, or set " +
	"bootMode once"

// validateProvisioning checks the limits for the config of a host.
func validateProvisioning(path *field.Path, spec *BareMetalHostSpec) (errs field.ErrorList) {
	p, isForever := cmp.Or(spec.Provisioning, &Provisioning{}), spec.BootMode == BootForever
	switch w := p.Window; {
	case w == nil:
	case !isWindow(w.Duration):
		errs = append(errs, field.Invalid(path.Child("window"), w.Duration.String(), errWindow.Error()))
	case isForever && w.Duration > 0:
		errs = append(errs, field.Forbidden(path.Child("window"), needsConfig))
	}
	switch n := p.MaxFetches; {
	case n == nil:
	case *n < 0 || *n > maxMaxFetches:
		errs = append(errs, field.Invalid(path.Child("maxFetches"), *n, errFetches.Error()))
	case isForever && *n > 0:
		errs = append(errs, field.Forbidden(path.Child("maxFetches"), needsConfig))
	}
	return errs
}

// validateNICs checks the network cards of a host.
func validateNICs(path *field.Path, nics []NIC) field.ErrorList {
	if errs := tooMany(path, len(nics), MaxItems); errs != nil {
		return errs
	}
	var errs field.ErrorList
	for i, nic := range nics {
		at := path.Index(i)
		errs = slices.Concat(errs,
			required(at, nic.MAC+nic.IP+nic.Hostname, "a card has a mac, an ip or a hostname"),
			parsed(at.Child("mac"), nic.MAC, netaddr.ParseAnyMAC),
			parsed(at.Child("ip"), nic.IP, hostIP),
			parsed(at.Child("hostname"), nic.Hostname, netaddr.ParseHostname),
		)
	}
	return errs
}
