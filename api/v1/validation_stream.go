package v1

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"

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
	path, spec := field.NewPath("spec"), &release.Spec
	errs := append(validateStreamName(path.Child("stream"), spec.Stream),
		validateStreamName(path.Child("release"), spec.Release)...)
	if want := StreamReleaseName(spec.Stream, spec.Release); len(errs) == 0 && release.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), release.Name, fmt.Sprintf(
			"must be %s, of spec.stream and spec.release, so that a release of a stream is kept once", want)))
	}
	return slices.Concat(
		validateMeta(&release.ObjectMeta, false, apivalidation.NameIsDNSSubdomain),
		errs,
		required(path.Child("document"), spec.Document, "a release without its document lists no image"),
		parsed(path.Child("maxIgnition"), spec.MaxIgnition,
			matching(specVersion, "want a version of the Ignition spec such as 3.4.0")),
		parsedEach(path.Child("mirrors"), spec.Mirrors, mirrorURL),
	)
}

// ValidateStreamReleaseUpdate checks that a new version of a release has the same stream
// and release. Two pairs of them can have the same object name, as a-b with c and a with
// b-c: the second must not replace the first.
func ValidateStreamReleaseUpdate(release, old *StreamRelease) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, is, was string }{{"stream", release.Spec.Stream, old.Spec.Stream},
		{"release", release.Spec.Release, old.Spec.Release}} {
		if f.is != f.was {
			errs = append(errs, field.Invalid(field.NewPath("spec", f.name), f.is, fmt.Sprintf(
				"is immutable: %s is release %s of stream %s, to be deleted first if it is to be replaced", old.Name,
				old.Spec.Release, old.Spec.Stream)))
		}
	}
	return errs
}

func validateStreamName(path *field.Path, name string) field.ErrorList {
	return append(required(path, name, ""), parsed(path, name,
		matching(streamName, `want letters, digits, ".", "_", "+", "~" and "-", at most 100`))...)
}

// mirrorURL checks the URL of a folder. It must not contain a password, which every
// reader of the object would see.
func mirrorURL(value string) (string, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("want the http or https URL of a folder, without a user, a password or a query")
	}
	return value, nil
}
