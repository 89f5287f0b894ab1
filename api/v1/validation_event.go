package v1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Maximum lengths of the texts of an Event, in bytes.
const (
	maxReasonBytes  = 128
	maxMessageBytes = 4096
)

// ValidateNamespace checks a namespace, whose name is a DNS-1123 label.
func ValidateNamespace(namespace *Namespace) field.ErrorList {
	errs := validateMeta(&namespace.ObjectMeta, false, apivalidation.ValidateNamespaceName)
	return append(errs, validateScript(field.NewPath("metadata", "annotations").Key(AnnotationIPXE),
		namespace.Annotations[AnnotationIPXE])...)
}

// ValidateNamespaceUpdate checks a new version of a namespace.
func ValidateNamespaceUpdate(namespace, old *Namespace) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&namespace.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateNamespace(namespace)...)
}

// ValidateEvent checks an event. Its namespace must be that of its involvedObject, or
// "default" for an object without a namespace.
func ValidateEvent(event *Event) field.ErrorList {
	errs := validateMeta(&event.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	about := event.InvolvedObject.Namespace
	if about == "" {
		about = NamespaceDefault
	}
	if about != event.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"),
			event.InvolvedObject.Namespace, "does not match metadata.namespace"))
	}
	if event.Type != "" {
		errs = append(errs, oneOf(field.NewPath("type"), event.Type, EventNormal, EventWarning)...)
	}
	if len(event.Reason) > maxReasonBytes {
		errs = append(errs, field.TooLong(field.NewPath("reason"), "", maxReasonBytes))
	}
	if len(event.Message) > maxMessageBytes {
		errs = append(errs, field.TooLong(field.NewPath("message"), "", maxMessageBytes))
	}
	return errs
}

// ValidateEventUpdate checks a new version of an event.
func ValidateEventUpdate(event, old *Event) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&event.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateEvent(event)...)
}
