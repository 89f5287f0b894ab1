package audit

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The annotations of an answer to a machine.
const (
	// AnnotationHost is the host that was answered, as namespace/name, and AnnotationFoundBy how it
	// was recognized.
	AnnotationHost    = "glowplug.dev/host"
	AnnotationFoundBy = "glowplug.dev/found-by"
	// AnnotationMatchedBy is the rule that chose the config, and AnnotationHash the digest of the
	// bytes that were sent.
	AnnotationMatchedBy = "glowplug.dev/matched-by"
	AnnotationHash      = "glowplug.dev/config-hash"
)

// VerbLogin is the verb of iSCSI logins, whose paths begin with PathISCSI and end with the target.
const (
	VerbLogin = "login"
	PathISCSI = "/iscsi/"
)

// Answer is an answer to a machine.
type Answer struct {
	At   time.Time
	Verb string
	// Path and Query are those of the request; of the query only the claims are recorded.
	Path, Query string
	Agent       string
	From        netip.Addr
	// User is nil for a machine, which has no credential.
	User user.Info
	// Object is the config or image that was served; nil: there is none.
	Object *Object
	// Status is an HTTP status. Failure is the reason of a refusal.
	Status  int
	Failure string
	// The values of annotations; "": there is none.
	Host, FoundBy, MatchedBy, Hash string
}

// Object names an object of the API.
type Object struct{ Resource, Namespace, Name, Version string }

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// Answered records an answer to a machine, unless the policy drops it.
func (t *Trail) Answered(a *Answer) {
	if a.User == nil {
		a.User = anonymous
	}
	ctx := context.Background()
	config := t.policy.EvaluatePolicyRule(authorizer.AttributesRecord{User: a.User, Verb: a.Verb, Path: a.Path})
	audit.ObservePolicyLevel(ctx, config.Level)
	if config.Level == auditinternal.LevelNone || slices.Contains(config.OmitStages, auditinternal.StageResponseComplete) {
		return
	}
	audit.ObserveEvent(ctx)
	t.backend.ProcessEvents(a.event()) // a lost event is counted and logged by the library
}

func (a *Answer) event() *auditinternal.Event {
	e := &auditinternal.Event{
		Level: auditinternal.LevelMetadata, Stage: auditinternal.StageResponseComplete, AuditID: uuid.NewUUID(),
		RequestReceivedTimestamp: metav1.NewMicroTime(a.At), StageTimestamp: metav1.NewMicroTime(time.Now()),
		Verb: clip(a.Verb, 16), RequestURI: cleanURI(a.Path+"?"+a.Query, machineParameters),
		UserAgent: clip(a.Agent, maxText), SourceIPs: addresses(a.From),
		User: authenticationv1.UserInfo{
			Username: a.User.GetName(), UID: a.User.GetUID(), Groups: a.User.GetGroups(),
		},
		ResponseStatus: statusOf(a.Status, a.Failure),
		Annotations:    map[string]string{},
	}
	for key, value := range map[string]string{
		AnnotationHost: a.Host, AnnotationFoundBy: a.FoundBy, AnnotationMatchedBy: a.MatchedBy, AnnotationHash: a.Hash,
	} {
		if value != "" {
			e.Annotations[key] = value
		}
	}
	if o := a.Object; o != nil {
		e.ObjectRef = &auditinternal.ObjectReference{
			Resource: o.Resource, Namespace: clip(o.Namespace, maxText), Name: clip(o.Name, maxText), APIVersion: "v1",
			ResourceVersion: o.Version,
		}
	}
	return e
}

// reasons are those that the API gives with a status.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:    metav1.StatusReasonMethodNotAllowed,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

func statusOf(code int, failure string) *metav1.Status {
	status := &metav1.Status{Code: int32(code)}
	if code >= http.StatusBadRequest {
		status.Status, status.Reason = metav1.StatusFailure, reasons[code]
		status.Message = clip(strings.TrimSpace(failure), maxText)
	}
	return status
}
