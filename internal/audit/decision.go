package audit

import (
	"slices"
	"strings"
	"sync"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

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

// decisions are those on machines without a credential: they are the same at each boot, and to evaluate the policy
// would be a quarter of what an answer takes here.
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
