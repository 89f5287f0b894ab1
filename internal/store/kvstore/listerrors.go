package kvstore

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// maxListErrors bounds the damaged objects that one answer names.
const maxListErrors = 100

// listErrors are the objects of a list that could not be read. Usually the first
// ends the list; with AllowUnsafeMalformedObjectDeletion the damaged ones are
// gathered, so that an administrator sees all that need deleting.
type listErrors struct {
	gather bool
	causes []metav1.StatusCause
	abort  error
}

func newListErrors() listErrors {
	return listErrors{gather: utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)}
}

// add takes an error and reports whether the list is to go on.
func (l *listErrors) add(key string, err error) bool {
	if !l.gather || !errors.Is(err, ErrDamaged) {
		l.abort = err
		return false
	}
	l.causes = append(l.causes, metav1.StatusCause{
		Type:    metav1.CauseTypeUnexpectedServerResponse,
		Field:   key,
		Message: err.Error(),
	})
	return len(l.causes) < maxListErrors
}

// result is the error of the whole list, nil if there was none.
func (l *listErrors) result(resource string) error {
	if len(l.causes) == 0 {
		return l.abort
	}
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", resource, l.causes[0].Message)
	if more := len(l.causes) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	switch {
	case l.abort != nil:
		l.causes = append(l.causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse,
			Message: l.abort.Error()})
	case len(l.causes) == maxListErrors:
		l.causes = append(l.causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany,
			Message: "too many errors, the list is truncated"})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: message,
		Details: &metav1.StatusDetails{Kind: resource, Name: "list", Causes: l.causes},
	}}
}
