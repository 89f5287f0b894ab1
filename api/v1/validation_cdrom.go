package v1

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
)

// maxLUN is the highest logical unit number of the flat addressing method.
const maxLUN = 16383

// ValidateISCSICdrom checks the fields of an image: there is at most one source, and no
// value can extend a boot script or leave the ISO directory.
func ValidateISCSICdrom(cdrom *ISCSICdrom) field.ErrorList {
	errs := validateMeta(&cdrom.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	path := field.NewPath("spec")
	spec := &cdrom.Spec

	errs = append(errs, validateImageSource(spec, path)...)
	errs = append(errs, parsed(path.Child("description"), spec.Description, scriptSafe)...)
	errs = append(errs, parsed(path.Child("version"), spec.Version, scriptSafe)...)
	errs = append(errs, parsedEach(path.Child("kernelArgs"), spec.KernelArgs, kernelArg)...)
	errs = append(errs, parsed(path.Child("ignitionConfig"), spec.IgnitionConfig, reference)...)
	if spec.CHAP != nil {
		at := path.Child("chap")
		errs = append(errs, secret(at.Child("username"), spec.CHAP.Username)...)
		errs = append(errs, secret(at.Child("password"), spec.CHAP.Password)...)
		if spec.CHAP.MutualUsername != "" || spec.CHAP.MutualPassword != "" {
			errs = append(errs, secret(at.Child("mutualUsername"), spec.CHAP.MutualUsername)...)
			errs = append(errs, secret(at.Child("mutualPassword"), spec.CHAP.MutualPassword)...)
		}
		if spec.CHAP.Password != "" && spec.CHAP.MutualPassword == spec.CHAP.Password {
			errs = append(errs, field.Invalid(at.Child("mutualPassword"), field.OmitValueType{},
				"must not be the password: each direction has a secret of its own (RFC 7143, section 12.1.3)"))
		}
	}
	errs = append(errs, parsedEach(path.Child("allowedInitiators"), spec.AllowedInitiators, iscsiName)...)
	if spec.Transport != "" {
		errs = append(errs, oneOf(path.Child("transport"), spec.Transport, TransportISCSI, TransportHTTP)...)
	}
	if spec.Access != "" {
		errs = append(errs, oneOf(path.Child("access"), spec.Access, AccessAny, AccessHosts)...)
	}
	return errs
}

// ValidateISCSICdromUpdate checks a new version of an image.
func ValidateISCSICdromUpdate(cdrom, old *ISCSICdrom) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&cdrom.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateISCSICdrom(cdrom)...)
}

// validateImageSource checks that there is at most one source, and its fields.
func validateImageSource(spec *ISCSICdromSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	const one = "an image comes from isoFile, url, stream or external, not from two of them"
	if spec.ISOFile != "" && spec.URL != "" {
		errs = append(errs, field.Forbidden(path.Child("url"), one))
	}
	if spec.Stream != nil && (spec.ISOFile != "" || spec.URL != "") {
		errs = append(errs, field.Forbidden(path.Child("stream"), one))
	}
	if spec.External != nil && (spec.ISOFile != "" || spec.URL != "" || spec.Stream != nil) {
		errs = append(errs, field.Forbidden(path.Child("external"), one))
	}
	errs = append(errs, validateStreamImage(spec, path)...)
	errs = append(errs, parsed(path.Child("isoFile"), spec.ISOFile, fileBelow)...)
	if spec.URL != "" {
		if err := downloadURL(spec.URL); err != nil {
			errs = append(errs, field.Invalid(path.Child("url"), field.OmitValueType{}, err.Error()))
		}
	}
	errs = append(errs, parsed(path.Child("sha256"), spec.SHA256, sha256Hex)...)
	switch {
	case spec.URL != "" && spec.SHA256 == "":
		errs = append(errs, field.Required(path.Child("sha256"), "a downloaded image is checked against its digest"))
	case spec.URL == "" && spec.SHA256 != "":
		errs = append(errs, field.Forbidden(path.Child("sha256"), "goes with url"))
	}
	return append(errs, validateExternal(spec, path)...)
}

// validateExternal checks the target of another server.
func validateExternal(spec *ISCSICdromSpec, path *field.Path) field.ErrorList {
	external, at := spec.External, path.Child("external")
	if external == nil {
		return nil
	}
	var errs field.ErrorList
	if external.Portal == "" {
		errs = append(errs, field.Required(at.Child("portal"), "want an address or a host name, with an optional port"))
	}
	errs = append(errs, parsed(at.Child("portal"), external.Portal, portal)...)
	if external.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), "want the name of the target"))
	}
	errs = append(errs, parsed(at.Child("iqn"), external.IQN, iscsiName)...)
	if external.LUN < 0 || external.LUN > maxLUN {
		errs = append(errs, field.Invalid(at.Child("lun"), external.LUN, fmt.Sprintf("want 0 to %d", maxLUN)))
	}
	if spec.Transport == TransportHTTP {
		errs = append(errs, field.Invalid(path.Child("transport"), spec.Transport,
			"an external target is reached over iscsi"))
	}
	return errs
}

// maxStreamWord is the maximum length in bytes of the names in a StreamImage.
const maxStreamWord = 128

// validateStreamImage checks the fields that select an image of a stream.
func validateStreamImage(spec *ISCSICdromSpec, path *field.Path) field.ErrorList {
	if spec.Stream == nil {
		return nil
	}
	var errs field.ErrorList
	at, s := path.Child("stream"), spec.Stream.WithDefaults()
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "want the name of the stream, as its StreamReleases have it"))
	}
	for name, value := range map[string]string{"name": s.Name, "architecture": s.Architecture, "artifact": s.Artifact,
		"release": s.Release} {
		errs = append(errs, parsed(at.Child(name), value, streamWord)...)
	}
	if s.Artifact != ArtifactMetal {
		errs = append(errs, field.NotSupported(at.Child("artifact"), s.Artifact, []string{ArtifactMetal}))
	}
	errs = append(errs, oneOf(at.Child("format"), s.Format, FormatISO, FormatPXE)...)
	errs = append(errs, oneOf(at.Child("update"), s.Update, UpdatePinned, UpdateFollow)...)
	if s.Release != "" && s.Update == UpdateFollow {
		errs = append(errs, field.Forbidden(at.Child("release"),
			"follow takes the current release: leave update out to stay on this one"))
	}
	if s.Format == FormatPXE {
		if spec.CHAP != nil {
			errs = append(errs, field.Forbidden(path.Child("chap"), "an image of format pxe is read over HTTP"))
		}
		if len(spec.AllowedInitiators) > 0 {
			errs = append(errs, field.Forbidden(path.Child("allowedInitiators"), "an image of format pxe is read over HTTP"))
		}
		errs = append(errs, parsedEach(path.Child("kernelArgs"), spec.KernelArgs, ipxeArg)...)
	}
	return errs
}

// streamWord checks the name of a stream, a release, an architecture or an artifact.
func streamWord(value string) (string, error) {
	if len(value) > maxStreamWord {
		return "", fmt.Errorf("want at most %d characters", maxStreamWord)
	}
	for _, c := range value {
		if c != '-' && c != '.' && c != '_' && c != '+' && (c < '0' || c > '9') && (c < 'a' || c > 'z') &&
			(c < 'A' || c > 'Z') {
			return "", fmt.Errorf("want letters, digits and -._+")
		}
	}
	if value == "." || value == ".." {
		return "", fmt.Errorf("want a name")
	}
	return value, nil
}

// ipxeArg checks a kernel argument for use in an iPXE script.
func ipxeArg(value string) (string, error) {
	return ipxe.Argument(strings.ReplaceAll(value, "${glowplug}", "http://host"))
}

// secret checks a CHAP name or password. Its errors never contain the value.
func secret(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "chap has a username and a password, each way")}
	}
	if _, err := scriptSafe(value); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if len(value) > 255 {
		return field.ErrorList{field.TooLong(path, "", 255)}
	}
	return nil
}

// fileBelow checks a relative path that does not leave its directory.
func fileBelow(value string) (string, error) {
	if _, err := scriptSafe(value); err != nil {
		return "", err
	}
	if strings.HasPrefix(value, "/") || strings.Contains(value, `\`) {
		return "", fmt.Errorf("want a path below the ISO directory, such as fedora/43.iso")
	}
	for part := range strings.SplitSeq(value, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("want a path below the ISO directory, without empty parts, \".\" or \"..\"")
		}
	}
	return value, nil
}

// downloadURL checks an http or https URL without credentials. Its errors never contain
// the value, which may include a password.
func downloadURL(value string) error {
	if _, err := scriptSafe(value); err != nil {
		return err
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("want an http or https URL")
	case u.User != nil:
		return fmt.Errorf("must not hold a name or a password: every reader of this object would see them")
	}
	return nil
}

func sha256Hex(value string) ([]byte, error) {
	digest, err := hex.DecodeString(value)
	if err != nil || len(digest) != 32 {
		return nil, fmt.Errorf("want 64 hexadecimal digits")
	}
	return digest, nil
}

// portal checks an IP address or a host name with an optional port.
func portal(value string) (string, error) {
	host := value
	if h, port, err := net.SplitHostPort(value); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("want a port from 1 to 65535")
		}
		host = h
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	_, addrErr := netaddr.ParseIP(host)
	_, hostErr := hostIP(host)
	if _, nameErr := netaddr.ParseHostname(host); hostErr != nil && (addrErr == nil || nameErr != nil) {
		return "", fmt.Errorf("want an address or a host name, with an optional port")
	}
	return value, nil
}
