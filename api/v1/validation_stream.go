package v1

import (
	"fmt"
	"net/url"
	"regexp"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	// streamName matches the names of streams and releases, which become parts of paths.
	streamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,99}$`)
	// specVersion matches a released version of the Ignition spec.
	specVersion = regexp.MustCompile(`^[23]\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$`)
)

// ValidateStreamRelease checks the fields of a release. The package that reads the
// document checks its contents.
func ValidateStreamRelease(release *StreamRelease) field.ErrorList {
	errs := validateMeta(&release.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	path := field.NewPath("spec")
	spec := &release.Spec
	named := validateStreamName(path.Child("stream"), spec.Stream)
	named = append(named, validateStreamName(path.Child("release"), spec.Release)...)
	errs = append(errs, named...)
	if want := StreamReleaseName(spec.Stream, spec.Release); len(named) == 0 && release.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), release.Name, fmt.Sprintf(
			"must be %s, of spec.stream and spec.release, so that a release of a stream is kept once", want)))
	}
	if spec.Document == "" {
		errs = append(errs, field.Required(path.Child("document"), "a release without its document lists no image"))
	}
	if spec.MaxIgnition != "" && !specVersion.MatchString(spec.MaxIgnition) {
		errs = append(errs, field.Invalid(path.Child("maxIgnition"), spec.MaxIgnition,
			"want a version of the Ignition spec such as 3.4.0"))
	}
	return append(errs, parsedEach(path.Child("mirrors"), spec.Mirrors, mirrorURL)...)
}

// ValidateStreamReleaseUpdate checks a new version of a release.
func ValidateStreamReleaseUpdate(release, old *StreamRelease) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&release.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	// Two pairs of stream and release can have the same object name, as a-b with c and a
	// with b-c: the second must not replace the first.
	for _, f := range []struct{ name, is, was string }{{"stream", release.Spec.Stream, old.Spec.Stream},
		{"release", release.Spec.Release, old.Spec.Release}} {
		if f.is != f.was {
			errs = append(errs, field.Invalid(field.NewPath("spec", f.name), f.is, fmt.Sprintf(
				"is immutable: %s is release %s of stream %s, to be deleted first if it is to be replaced", old.Name,
				old.Spec.Release, old.Spec.Stream)))
		}
	}
	return append(errs, ValidateStreamRelease(release)...)
}

func validateStreamName(path *field.Path, name string) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case !streamName.MatchString(name):
		return field.ErrorList{field.Invalid(path, name, `want letters, digits, ".", "_", "+", "~" and "-", at most 100`)}
	}
	return nil
}

// mirrorURL checks the URL of a folder. It must not contain a password, which everybody
// who may read the object would see.
func mirrorURL(value string) (string, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("want the http or https URL of a folder, without a user, a password or a query")
	}
	return value, nil
}
