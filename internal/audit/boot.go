package audit

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

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
	// The values of annotations; "": there is none.
	Host, FoundBy, MatchedBy, Hash string
	// Pointer is true for a config that only refers the machine to HTTPS.
	Pointer bool
}

// Object names an object of the API, and its revision; 0: that is not known.
type Object struct {
	Resource, Namespace, Name string
	Revision                  uint64
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// decision is what a policy says of an answer.
type decision struct {
	level auditinternal.Level
	drops bool
}

func decide(policy *Policy, a *Answer) decision {
	config := policy.EvaluatePolicyRule(authorizer.AttributesRecord{User: a.User, Verb: a.Verb, Path: a.Path})
	return decision{config.Level, config.Level == auditinternal.LevelNone ||
		slices.Contains(config.OmitStages, auditinternal.StageResponseComplete)}
}

// maxDecisions bounds the decisions that are kept: a stranger chooses the paths of images.
const maxDecisions = 1 << 10

// asked is what a decision on a machine without a credential depends on.
type asked struct{ verb, path string }

// decisions are those on machines without a credential. To evaluate the policy takes longer than the line of an
// answer.
type decisions struct {
	mu    sync.RWMutex
	known map[asked]decision
}

func (k *decisions) decision(policy *Policy, a *Answer) decision {
	if a.User != anonymous || len(a.Verb)+len(a.Path) > maxText {
		return decide(policy, a)
	}
	which := asked{a.Verb, a.Path}
	k.mu.RLock()
	d, isKnown := k.known[which]
	k.mu.RUnlock()
	if isKnown {
		return d
	}
	d = decide(policy, a)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= maxDecisions {
		clear(k.known)
	}
	k.known[asked{strings.Clone(a.Verb), strings.Clone(a.Path)}] = d // not the memory of the request
	return d
}

// Answered records an answer to a machine, unless the policy drops it.
func (t *Trail) Answered(a *Answer) {
	if a.User == nil {
		a.User = anonymous
	}
	ctx := context.Background()
	d := t.machines.decision(t.policy, a)
	audit.ObservePolicyLevel(ctx, d.level)
	if d.drops {
		return
	}
	audit.ObserveEvent(ctx)
	if t.buffer == nil {
		writeLines(t.lines, appendLine(nil, a, time.Now()))
		return
	}
	t.buffer.add(a)
}
