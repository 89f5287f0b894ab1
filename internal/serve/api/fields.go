package api

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
)

// selectable are the fields that select objects of a kind, beside metadata.name and
// metadata.namespace, each with the function that returns its value.
type selectable[T object] map[string]func(T) string

// fieldLabels check the fields of a selector, by kind.
var fieldLabels = map[string]runtime.FieldLabelConversionFunc{
	"Event":          eventFields.convert,
	"BareMetalHost":  hostFields.convert,
	"Boot":           bootFields.convert,
	"IgnitionConfig": configFields.convert,
	"ISCSICdrom":     cdromFields.convert,
	"Namespace":      namespaceFields.convert,
	"Secret":         secretFields.convert,
}

// Fields of more than one kind.
const (
	fieldMAC   = "spec.bootMACAddress"
	fieldIP    = "spec.ip"
	fieldUUID  = "spec.systemUUID"
	fieldPhase = "status.phase"
)

var hostFields = selectable[*v1.BareMetalHost]{
	fieldMAC:       func(h *v1.BareMetalHost) string { return plainAddress(fieldMAC, h.Spec.BootMACAddress) },
	fieldIP:        func(h *v1.BareMetalHost) string { return plainAddress(fieldIP, h.Spec.IP) },
	fieldUUID:      func(h *v1.BareMetalHost) string { return plainAddress(fieldUUID, h.Spec.SystemUUID) },
	"spec.image":   func(h *v1.BareMetalHost) string { return h.Spec.Image },
	"status.state": func(h *v1.BareMetalHost) string { return h.Status.State },
}

var bootFields = selectable[*v1.Boot]{
	"host": func(b *v1.Boot) string { return b.Host },
	"image": func(b *v1.Boot) string {
		if b.Image == nil {
			return ""
		}
		return b.Image.Name
	},
	"outcome": func(b *v1.Boot) string { return b.Outcome },
}

var configFields = selectable[*v1.IgnitionConfig]{
	fieldPhase: func(c *v1.IgnitionConfig) string { return c.Status.Phase },
}

var cdromFields = selectable[*v1.ISCSICdrom]{
	fieldPhase: func(c *v1.ISCSICdrom) string { return c.Status.Phase },
}

var namespaceFields = selectable[*v1.Namespace]{
	fieldPhase: func(n *v1.Namespace) string { return n.Status.Phase },
}

var secretFields = selectable[*v1.Secret]{
	"type": func(s *v1.Secret) string { return s.Type },
}

// eventFields are those of kubectl describe and kubectl events.
var eventFields = selectable[*v1.Event]{
	"involvedObject.kind":            func(e *v1.Event) string { return e.InvolvedObject.Kind },
	"involvedObject.namespace":       func(e *v1.Event) string { return e.InvolvedObject.Namespace },
	"involvedObject.name":            func(e *v1.Event) string { return e.InvolvedObject.Name },
	"involvedObject.uid":             func(e *v1.Event) string { return e.InvolvedObject.UID },
	"involvedObject.apiVersion":      func(e *v1.Event) string { return e.InvolvedObject.APIVersion },
	"involvedObject.resourceVersion": func(e *v1.Event) string { return e.InvolvedObject.ResourceVersion },
	"involvedObject.fieldPath":       func(e *v1.Event) string { return e.InvolvedObject.FieldPath },
	"reason":                         func(e *v1.Event) string { return e.Reason },
	"reportingComponent":             func(e *v1.Event) string { return e.ReportingController },
	"source":                         func(e *v1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) },
	"type":                           func(e *v1.Event) string { return e.Type },
}

// convert accepts the fields of the kind. Any other field is answered 400. An address may
// have any notation.
func (s selectable[T]) convert(label, value string) (string, string, error) {
	if label == "metadata.name" || label == "metadata.namespace" {
		return label, value, nil
	}
	if s[label] == nil {
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	return label, plainAddress(label, value), nil
}

// attributesOf returns the labels and fields of an object.
func (s selectable[T]) attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	typed, ok := obj.(T)
	if !ok {
		return nil, nil, fmt.Errorf("%T cannot be selected by the fields of another kind", obj)
	}
	set := fields.Set{"metadata.name": typed.GetName(), "metadata.namespace": typed.GetNamespace()}
	for name, value := range s {
		set[name] = value(typed)
	}
	return typed.GetLabels(), set, nil
}

// plainAddress returns the value of an address field in its usual notation: a hardware
// address in lower case with colons, and a UUID as the text of its key. It returns any other text as it is.
func plainAddress(field, text string) string {
	switch field {
	case fieldMAC:
		if mac, err := netaddr.ParseMAC(text); err == nil {
			return mac.String()
		}
	case fieldIP:
		if ip, err := netaddr.ParseIP(text); err == nil {
			return ip.String()
		}
	case fieldUUID: // the two orders of its bytes are one value
		if key := netaddr.KeyOfUUID(text); key != (netaddr.UUIDKey{}) {
			return hex.EncodeToString(key[:])
		}
	}
	return text
}

// plainMACRule returns an entry of matchMACs, an address or a prefix, in lower case with colons.
func plainMACRule(text string) string {
	if prefix, err := netaddr.ParseMACPrefix(text); err == nil {
		return prefix.String()
	}
	return plainAddress(fieldMAC, text)
}
