package audit

import (
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// Bounds of an event: the buffer holds many of them, and a stranger chooses its texts.
const (
	maxURI    = 1024
	usualURI  = 512 // of a machine, at most
	maxText   = 256
	maxBodies = 100 << 10 // of the request and the response together, as the library's plugin truncate has it
)

// The parameters of a query that are recorded. Any other may be a token.
var (
	apiParameters = []string{
		"labelSelector", "fieldSelector", "limit", "continue", "watch", "resourceVersion", "resourceVersionMatch",
		"timeout", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "dryRun", "fieldManager",
		"fieldValidation", "force", "pretty", "propagationPolicy", "gracePeriodSeconds", "mac", "uuid", "ip", "hostname",
	}
	machineParameters = []string{"mac", "uuid", "ip", "hostname"}
)

// cleanURI returns a path with a query as far as its parameters are known.
func cleanURI(path, query string, parameters []string) string {
	return string(appendURI(nil, path, query, parameters))
}

// appendURI is cleanURI that appends to b, which is empty.
func appendURI(b []byte, path, query string, parameters []string) []byte {
	b = append(b, path...)
	separator := byte('?')
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(parameters, name) {
			b = append(append(b, separator), pair...)
			separator = '&'
		}
		if len(b) > maxURI {
			return []byte(clip(string(b), maxURI))
		}
	}
	return b
}

// sink bounds and cleans the events of one request of the API.
type sink struct {
	audit.Sink
	from netip.Addr
}

// ProcessEvents implements audit.Sink. The library keeps the events and changes them later.
func (s sink) ProcessEvents(events ...*auditinternal.Event) bool {
	processed := true
	for _, event := range events {
		e := *event
		s.clean(&e)
		processed = s.Sink.ProcessEvents(&e) && processed
	}
	return processed
}

func (s sink) clean(e *auditinternal.Event) {
	e.AuditID = types.UID(clip(string(e.AuditID), 64)) // a client may choose it
	e.Verb = clip(e.Verb, 16)
	path, query, _ := strings.Cut(e.RequestURI, "?")
	e.RequestURI = cleanURI(path, query, apiParameters)
	e.UserAgent = clip(e.UserAgent, maxText)
	e.SourceIPs = addresses(s.from) // the library believes every X-Forwarded-For
	if ref := e.ObjectRef; ref != nil {
		bounded := *ref
		for _, text := range []*string{
			&bounded.Resource, &bounded.Namespace, &bounded.Name, &bounded.APIGroup, &bounded.APIVersion,
			&bounded.Subresource,
		} {
			*text = clip(*text, maxText)
		}
		e.ObjectRef = &bounded
	}
	e.ResponseStatus = cleanStatus(e)
	boundBodies(e)
}

// cleanStatus returns the status of an answer. The message about an invalid object quotes it, so
// it is left out where the object holds secrets.
func cleanStatus(e *auditinternal.Event) *metav1.Status {
	if e.ResponseStatus == nil {
		return nil
	}
	status := *e.ResponseStatus
	status.Details = nil
	status.Message = clip(status.Message, maxText)
	if e.ObjectRef != nil && isBodiless(e.ObjectRef.Resource) && status.Code != 401 {
		status.Message = ""
	}
	return &status
}

// boundBodies leaves out bodies that are too large, and says so as the library's plugin does.
func boundBodies(e *auditinternal.Event) {
	size := 0
	if e.RequestObject != nil {
		size += len(e.RequestObject.Raw)
	}
	if e.ResponseObject != nil {
		size += len(e.ResponseObject.Raw)
	}
	if size <= maxBodies {
		return
	}
	e.RequestObject, e.ResponseObject = nil, nil
	annotations := map[string]string{"audit.k8s.io/truncated": "true"}
	for key, value := range e.Annotations {
		annotations[key] = value
	}
	e.Annotations = annotations
}

func addresses(addr netip.Addr) []string {
	if !addr.IsValid() {
		return nil
	}
	return []string{addr.String()}
}

// clip cuts a text that is longer than limit bytes.
func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
