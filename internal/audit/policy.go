package audit

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// bodiless are the resources whose bodies hold secrets, and the paths below /api/v1 whose bodies
// hold any objects. Each has its subresources.
var bodiless = []string{
	"ignitionconfigs", "baremetalhosts", "iscsicdroms", "secrets", "tokens", "serviceaccounts", "explain", "impact",
}

func isBodiless(resource string) bool { return slices.Contains(bodiless, resource) }

// Policy decides what is recorded of a request. No policy records a body that holds secrets.
type Policy struct {
	audit.PolicyRuleEvaluator
	// Excess has a sentence for each rule that asks for such bodies.
	Excess []string
	// bodies is true where the policy asks for any body.
	bodies bool
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (p *Policy) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := p.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	if isBodiless(a.GetResource()) && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}

// BuiltIn returns the policy that applies without a file: the metadata of every request, except
// for users who read discovery, health and metrics. In the strict mode the library refuses a
// request at the stage RequestReceived alone.
func BuiltIn(mode string) *Policy {
	built := &auditinternal.Policy{
		OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived},
		Rules: []auditinternal.PolicyRule{{
			Level:      auditinternal.LevelNone,
			UserGroups: []string{user.AllAuthenticated}, // a refused credential is recorded at every path
			Verbs:      []string{"get", "head", "options"},
			// Not /api*: the paths for machines are below it.
			NonResourceURLs: []string{
				"/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/*", "/openapi/*", "/version", "/healthz*",
				"/livez*", "/readyz*", "/metrics",
			},
		}, {
			Level: auditinternal.LevelMetadata,
		}},
	}
	if mode == ModeBlockingStrict {
		built.OmitStages = nil
	}
	return newPolicy(built)
}

// LoadPolicy reads a policy file. The library would ignore an unknown field with a warning, so that
// a misspelt rule records something else than it seems to.
func LoadPolicy(path string) (*Policy, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, _, err := strict.Decode(content, nil, &auditinternal.Policy{}); err != nil {
		return nil, fmt.Errorf("%s is no Policy of audit.k8s.io/v1: %w", path, err)
	}
	loaded, err := policy.LoadPolicyFromBytes(content)
	if err != nil {
		return nil, fmt.Errorf("%s is no Policy of audit.k8s.io/v1: %w", path, err)
	}
	return newPolicy(loaded), nil
}

func newPolicy(p *auditinternal.Policy) *Policy {
	made := &Policy{PolicyRuleEvaluator: policy.NewPolicyRuleEvaluator(p)}
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !auditinternal.LevelMetadata.Less(rule.Level) {
			continue
		}
		made.bodies = true
		if names := overreached(*rule); len(names) > 0 {
			made.Excess = append(made.Excess, fmt.Sprintf("rules[%d] asks for the level %s of %s: their bodies hold "+
				"secrets, and the level is Metadata for them", i, rule.Level, strings.Join(names, ", ")))
		}
	}
	return made
}

// overreached returns the resources without bodies that a rule matches, of whatever user, verb,
// namespace and name.
func overreached(rule auditinternal.PolicyRule) (names []string) {
	rule.Users, rule.UserGroups, rule.Verbs, rule.Namespaces = nil, nil, nil, nil
	rule.Resources = slices.Clone(rule.Resources)
	for i := range rule.Resources {
		rule.Resources[i].ResourceNames = nil
	}
	widest := policy.NewPolicyRuleEvaluator(&auditinternal.Policy{Rules: []auditinternal.PolicyRule{rule}})
	for _, resource := range bodiless {
		// A rule for a subresource has the name of one of these, or an asterisk.
		for _, sub := range []string{"", "status", "iso", "rendered", "plan", "token"} {
			a := authorizer.AttributesRecord{Resource: resource, Subresource: sub, ResourceRequest: true}
			if widest.EvaluatePolicyRule(a).Level != auditinternal.LevelNone {
				names = append(names, resource)
				break
			}
		}
	}
	return names
}
