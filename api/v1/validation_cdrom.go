package v1

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
)

// maxLUN is the highest logical unit number of the flat addressing method.
const maxLUN = 16383

// maxStreamWord is the maximum length in bytes of the names in a StreamImage.
const maxStreamWord = 128

// streamWordForm matches the characters of the names in a StreamImage.
var streamWordForm = regexp.MustCompile(`^[A-Za-z0-9._+-]*$`)

// ValidateISCSICdrom checks the fields of an image: there is at most one source, and no
// value can extend a boot script or leave the ISO directory.
func ValidateISCSICdrom(cdrom *ISCSICdrom) field.ErrorList {
	path, spec := field.NewPath("spec"), &cdrom.Spec
	return slices.Concat(
		validateMeta(&cdrom.ObjectMeta, true, apivalidation.NameIsDNSSubdomain),
		validateImageSource(path, spec),
		parsed(path.Child("description"), spec.Description, scriptSafe),
		parsed(path.Child("version"), spec.Version, scriptSafe),
		parsedEach(path.Child("kernelArgs"), spec.KernelArgs, kernelArg),
		parsed(path.Child("ignitionConfig"), spec.IgnitionConfig, reference),
		ValidateCHAP(path.Child("chap"), spec.CHAP),
		parsedEach(path.Child("allowedInitiators"), spec.AllowedInitiators, iscsiName),
		emptyOrOneOf(path.Child("transport"), spec.Transport, TransportISCSI, TransportHTTP),
		emptyOrOneOf(path.Child("access"), spec.Access, AccessAny, AccessHosts),
		parsed(annotationPath(AnnotationStepTimeout), cdrom.Annotations[AnnotationStepTimeout], parseStepTimeout),
		parsed(annotationPath(AnnotationInstallDevice), cdrom.Annotations[AnnotationInstallDevice], parseDevice),
	)
}

// validateImageSource checks that there is at most one source, and its fields.
func validateImageSource(path *field.Path, spec *ISCSICdromSpec) field.ErrorList {
	var errs field.ErrorList
	before := spec.ISOFile != "" // whether there is a source already
	for _, source := range []struct {
		name string
		set  bool
	}{{"url", spec.URL != ""}, {"stream", spec.Stream != nil}, {"external", spec.External != nil}} {
		if source.set && before {
			errs = append(errs, field.Forbidden(path.Child(source.name),
				"an image comes from isoFile, url, stream or external, not from two of them"))
		}
		before = before || source.set
	}
	errs = slices.Concat(errs,
		validateStreamImage(path, spec),
		parsed(path.Child("isoFile"), spec.ISOFile, fileBelow),
		parsedSecret(path.Child("url"), spec.URL, downloadURL),
		parsed(path.Child("sha256"), spec.SHA256, sha256Hex),
	)
	switch {
	case spec.URL != "" && spec.SHA256 == "":
		errs = append(errs, field.Required(path.Child("sha256"), "a downloaded image is checked against its digest"))
	case spec.URL == "" && spec.SHA256 != "":
		errs = append(errs, field.Forbidden(path.Child("sha256"), "goes with url"))
	}
	return append(errs, validateExternal(path, spec)...)
}

// validateExternal checks the target of another server.
func validateExternal(path *field.Path, spec *ISCSICdromSpec) field.ErrorList {
	external, at := spec.External, path.Child("external")
	if external == nil {
		return nil
	}
	errs := slices.Concat(
		required(at.Child("portal"), external.Portal, "want an address or a host name, with an optional port"),
		parsed(at.Child("portal"), external.Portal, portal),
		required(at.Child("iqn"), external.IQN, "want the name of the target"),
		parsed(at.Child("iqn"), external.IQN, iscsiName),
	)
	if external.LUN < 0 || external.LUN > maxLUN {
		errs = append(errs, field.Invalid(at.Child("lun"), external.LUN, fmt.Sprintf("want 0 to %d", maxLUN)))
	}
	if spec.Transport == TransportHTTP {
		errs = append(errs, field.Invalid(path.Child("transport"), spec.Transport,
			"an external target is reached over iscsi"))
	}
	return errs
}

// validateStreamImage checks the fields that select an image of a stream.
func validateStreamImage(path *field.Path, spec *ISCSICdromSpec) field.ErrorList {
	if spec.Stream == nil {
		return nil
	}
	at, s := path.Child("stream"), spec.Stream.WithDefaults()
	errs := slices.Concat(
		required(at.Child("name"), s.Name, "want the name of the stream, as its StreamReleases have it"),
		parsed(at.Child("name"), s.Name, streamWord),
		parsed(at.Child("architecture"), s.Architecture, streamWord),
		parsed(at.Child("artifact"), s.Artifact, streamWord),
		parsed(at.Child("release"), s.Release, streamWord),
		oneOf(at.Child("artifact"), s.Artifact, ArtifactMetal),
		oneOf(at.Child("format"), s.Format, FormatISO, FormatPXE),
		oneOf(at.Child("update"), s.Update, UpdatePinned, UpdateFollow),
	)
	if s.Release != "" && s.Update == UpdateFollow {
		errs = append(errs, field.Forbidden(at.Child("release"),
			"follow takes the current release: leave update out to stay on this one"))
	}
	if s.Format != FormatPXE {
		return errs
	}
	const overHTTP = "an image of format pxe is read over HTTP"
	if spec.CHAP != nil {
		errs = append(errs, field.Forbidden(path.Child("chap"), overHTTP))
	}
	if len(spec.AllowedInitiators) > 0 {
		errs = append(errs, field.Forbidden(path.Child("allowedInitiators"), overHTTP))
	}
	return append(errs, parsedEach(path.Child("kernelArgs"), spec.KernelArgs, ipxeArg)...)
}

// ValidateCHAP checks credentials. Its errors never contain them.
func ValidateCHAP(path *field.Path, chap *CHAP) field.ErrorList {
	if chap == nil {
		return nil
	}
	if chap.SecretName != "" {
		given := chap.Username + chap.Password + chap.MutualUsername + chap.MutualPassword
		return validateSecretName(path.Child("secretName"), chap.SecretName, given)
	}
	errs := append(validateSecret(path.Child("username"), chap.Username),
		validateSecret(path.Child("password"), chap.Password)...)
	if chap.MutualUsername != "" || chap.MutualPassword != "" {
		errs = append(errs, validateSecret(path.Child("mutualUsername"), chap.MutualUsername)...)
		errs = append(errs, validateSecret(path.Child("mutualPassword"), chap.MutualPassword)...)
	}
	if chap.Password != "" && chap.MutualPassword == chap.Password {
		errs = append(errs, field.Invalid(path.Child("mutualPassword"), field.OmitValueType{},
			"must not be the password: each direction has a secret of its own (RFC 7143, section 12.1.3)"))
	}
	return errs
}

// validateSecret checks a CHAP name or password.
func validateSecret(path *field.Path, value string) field.ErrorList {
	if errs := parsedSecret(path, value, scriptSafe); errs != nil {
		return errs
	}
	return append(required(path, value, "chap has a username and a password, each way"), tooLong(path, value, 255)...)
}

// streamWord checks the name of a stream, a release, an architecture or an artifact.
func streamWord(value string) (string, error) {
	switch {
	case len(value) > maxStreamWord:
		return "", fmt.Errorf("want at most %d characters", maxStreamWord)
	case !streamWordForm.MatchString(value):
		return "", errors.New("want letters, digits and -._+")
	case value == "." || value == "..":
		return "", errors.New("want a name")
	}
	return value, nil
}

// ipxeArg checks a kernel argument for use in an iPXE script.
func ipxeArg(value string) (string, error) {
	return ipxe.Argument(strings.ReplaceAll(value, "${glowplug}", "http://host"))
}

// fileBelow checks a relative path that does not leave its directory.
func fileBelow(value string) (string, error) {
	if _, err := scriptSafe(value); err != nil {
		return "", err
	}
	if strings.HasPrefix(value, "/") || strings.Contains(value, `\`) {
		return "", errors.New("want a path below the ISO directory, such as fedora/43.iso")
	}
	if value == "." || !fs.ValidPath(value) {
		return "", errors.New("want a path below the ISO directory, without empty parts, \".\" or \"..\"")
	}
	return value, nil
}

// downloadURL checks an http or https URL without credentials. Its errors never contain
// the value, which may include a password.
func downloadURL(value string) (*url.URL, error) {
	if _, err := scriptSafe(value); err != nil {
		return nil, err
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return nil, errors.New("want an http or https URL")
	case u.User != nil:
		return nil, errors.New("must not hold a name or a password: every reader of this object would see them")
	}
	return u, nil
}

func sha256Hex(value string) ([]byte, error) {
	digest, err := hex.DecodeString(value)
	if err != nil || len(digest) != 32 {
		return nil, errors.New("want 64 hexadecimal digits")
	}
	return digest, nil
}

// portal checks an IP address or a host name with an optional port.
func portal(value string) (string, error) {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.New("want a port from 1 to 65535")
		}
	} else if host = value; strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	_, err = hostIP(host)
	if _, notIP := netaddr.ParseIP(host); notIP != nil {
		_, err = netaddr.ParseHostname(host)
	}
	if err != nil {
		return "", errors.New("want an address or a host name, with an optional port")
	}
	return value, nil
}
