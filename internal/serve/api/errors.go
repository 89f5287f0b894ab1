package api

import (
	"context"
	"errors"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// ourError returns the error of a write by the Kubernetes library as the server answers it. Every update and patch
// passes here.
//
//   - Server-side apply of a field that the kind does not have is the client's error, 400. The library takes it for
//     an internal one.
//   - A patch that gives a field a value of a wrong type is answered with the field alone. The library quotes the
//     whole object with the patch in it, which the client may not be allowed to read: a Secret, say.
func ourError(ctx context.Context, err error, name string) error {
	if err == nil {
		return nil
	}
	if strings.HasPrefix(err.Error(), "failed to create typed patch object") {
		return apierrors.NewBadRequest(err.Error())
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
	kind := schema.GroupKind{}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		kind = groupKind(info.Resource)
	}
	return apierrors.NewInvalid(kind, name, found)
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
