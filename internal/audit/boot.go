package audit

import (
	"context"
	"net/netip"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
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
	// AnnotationPointer is true for a config that only refers the machine to HTTPS.
	AnnotationPointer = "glowplug.dev/pointer"
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
	// Object is the config or image that was served; its zero value: there is none.
	Object Object
	// Status is an HTTP status. Failure is the reason of a refusal.
	Status  int
	Failure string
	// Host is the host that was answered; its zero value: there is none.
	Host Name
	// The values of annotations; "": there is none.
	FoundBy, MatchedBy, Hash string
	// Pointer is true for a config that only refers the machine to HTTPS.
	Pointer bool
}

// Name is the namespace and the name of an object.
type Name struct{ Namespace, Name string }

// String is namespace/name; "": there is none.
func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Name
}

// Object names an object of the API, and its revision; 0: that is not known.
type Object struct {
	Resource, Namespace, Name string
	Revision                  uint64
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// Answered records an answer to a machine, unless the policy drops it. Its texts must not change later.
func (t *Trail) Answered(a Answer) {
	if a.User == nil {
		a.User = anonymous
	}
	d := t.machines.decision(t.policy, &a)
	if d.drops { // before anything is kept: what nobody wants takes no room
		audit.ObservePolicyLevel(context.Background(), d.level)
		return
	}
	if t.buffer != nil {
		t.buffer.add(&a, d.level)
		return
	}
	observe(d.level)
	writeLines(t.lines, appendLine(nil, &a, time.Now()))
}

// observe counts an event in the metrics of the library.
func observe(level auditinternal.Level) {
	audit.ObservePolicyLevel(context.Background(), level)
	audit.ObserveEvent(context.Background())
}

// clean leaves out what a line does not have, where that is much: a stranger chooses these texts.
func (a *Answer) clean() {
	if len(a.Path)+len(a.Query) > usualURI {
		a.Path, a.Query = cleanURI(a.Path, a.Query, machineParameters), ""
	}
	a.Agent = clip(a.Agent, maxText)
}
