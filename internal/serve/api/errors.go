package api

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ourError returns the error of a write by the Kubernetes library as the server answers it. Every update and patch
// passes here.
//
//   - Server-side apply of a field that the kind does not have, or of a value that is none of its type, is the
//     client's error, 400. The library takes it for an internal one, and quotes the value: in the answer, and in the
//     log that it writes of each error without a status.
//   - So it does with a resourceVersion that is no number, into which a patch may have copied any other field.
//   - A patch that gives a field a value of a wrong type is answered with the field alone. The library quotes the
//     whole object with the patch in it, which the client may not be allowed to read: a Secret, say.
func ourError(ctx context.Context, err error, name string) error {
	if err == nil {
		return nil
	}
	kind := kindOf(ctx)
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		return apierrors.NewInvalid(kind, name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"),
			field.OmitValueType{}, "it is no version of the object: give the one that you have read, or none")})
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "failed to create typed patch object"):
		return apierrors.NewBadRequest(withoutGiven(text))
	case strings.HasPrefix(text, "failed to convert new"):
		return apierrors.NewBadRequest(withoutQuotes(text))
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid ||
		status.Status().Details == nil {
		return err
	}
	var found field.ErrorList
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == patchField {
			found = append(found, field.Invalid(field.NewPath(patchField), field.OmitValueType{}, detailOf(cause.Message)))
		}
	}
	if len(found) == 0 {
		return err
	}
	return apierrors.NewInvalid(kind, name, found)
}

// withoutGiven returns an error about the types of an applied object without the values that it quotes. One with
// several findings has a line for each; the other lines are those of a value.
func withoutGiven(message string) string {
	var kept []string
	for i, line := range strings.Split(message, "\n") {
		if i == 0 || strings.HasPrefix(line, "  .") {
			line, _, _ = strings.Cut(line, ", got ")
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// quotedText is a text in quotes, as Go writes it.
var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutQuotes returns an error of a decoder without the values that it quotes.
func withoutQuotes(message string) string {
	return quotedText.ReplaceAllLiteralString(message, `"…"`)
}

// patchField is the name that the library gives the patched object in its errors.
const patchField = "patch"

// detailOf returns the detail of an error of the library, after the quoted value.
func detailOf(message string) string {
	_, rest, _ := strings.Cut(message, ": ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "a value of it has the wrong type"
	}
	return strings.TrimPrefix(rest[len(quoted):], ": ")
}
