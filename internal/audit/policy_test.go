package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// load reads a policy with these rules.
func load(t *testing.T, rules string) (*Policy, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy")
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\n" + rules
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadPolicy(file)
}

var ann = &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}

// A policy that cannot be used is refused with the name of its field, also where the library would
// only warn.
func TestPolicyIsStrict(t *testing.T) {
	for rules, want := range map[string]string{
		"rules: [{level: Metadata, user: [ann]}]":                      "rules[0].user",
		"rules: [{level: Everything}]":                                 "rules[0].level",
		"rules: []":                                                    "0 rules",
		"rules: [{level: None, nonResourceURLs: [\"a\"]}]":             "nonResourceURLs",
		"omitStages: [Never]\nrules: [{level: None}]":                  "omitStages",
		"rules: [{level: None}, {level: None, resources: [{grp: x}]}]": "rules[1].resources[0].grp",
	} {
		if _, err := load(t, rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rules, err, want)
		}
	}
}

// No policy makes the level of an object that holds secrets higher than Metadata, and each rule
// that asks for it is named.
func TestNoPolicyHasBodiesOfSecrets(t *testing.T) {
	for rule, excess := range map[string]string{
		"level: RequestResponse": "rules[0] asks for the level RequestResponse of ignitionconfigs, baremetalhosts, iscsicdroms",
		`level: Request, users: [bob], namespaces: [x], resources: [{group: "", resources: [baremetalhosts]}]`: "of " +
			"baremetalhosts: ",
		`level: Request, resources: [{group: "*", resources: ["*/status"]}]`:                               "ignitionconfigs",
		`level: Request, resources: [{group: "", resources: ["iscsicdroms/iso"], resourceNames: [a]}]`:     "of iscsicdroms: ",
		`level: Request, resources: [{group: rbac.authorization.k8s.io, resources: [roles]}]`:              "",
		`level: Metadata, resources: [{group: "", resources: [secrets]}]`:                                  "",
		`level: RequestResponse, resources: [{group: "", resources: [serviceaccounts/token, configmaps]}]`: "of serviceaccounts: ",
	} {
		p, err := load(t, "rules: [{"+rule+"}]")
		if err != nil {
			t.Fatal(rule, err)
		}
		if got := strings.Join(p.Excess, "; "); !strings.Contains(got, excess) || (excess == "") != (got == "") {
			t.Errorf("%s: %q, want %q", rule, got, excess)
		}
	}
	for _, level := range []auditinternal.Level{auditinternal.LevelRequest, auditinternal.LevelRequestResponse} {
		all, err := load(t, "rules: [{level: "+string(level)+"}]")
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{
			"ignitionconfigs", "baremetalhosts", "iscsicdroms", "secrets", "tokens", "serviceaccounts", "explain",
			"impact",
		} {
			for _, sub := range []string{"", "status", "any"} {
				a := authorizer.AttributesRecord{
					User: ann, Verb: "update", Resource: resource, Subresource: sub, ResourceRequest: true,
				}
				if got := all.EvaluatePolicyRule(a).Level; got != auditinternal.LevelMetadata {
					t.Errorf("%s/%s at the level %s: %s", resource, sub, level, got)
				}
			}
		}
		roles := authorizer.AttributesRecord{User: ann, Verb: "create", Resource: "roles", ResourceRequest: true}
		if got := all.EvaluatePolicyRule(roles).Level; got != level {
			t.Errorf("roles: %s", got)
		}
	}
}

// The built-in policy drops what kubectl asks before each command, and nothing else.
func TestBuiltInPolicy(t *testing.T) {
	for path, want := range map[string]auditinternal.Level{
		"/api": auditinternal.LevelNone, "/api/v1": auditinternal.LevelNone, "/apis/authorization.k8s.io": auditinternal.LevelNone,
		"/openapi/v3": auditinternal.LevelNone, "/version": auditinternal.LevelNone, "/livez/ping": auditinternal.LevelNone,
		"/metrics": auditinternal.LevelNone, "/api/v1/ignition": auditinternal.LevelMetadata,
		"/boot.ipxe": auditinternal.LevelMetadata, "/iscsi/iqn.x:y": auditinternal.LevelMetadata,
	} {
		get := authorizer.AttributesRecord{User: ann, Verb: "get", Path: path}
		if got := BuiltIn(ModeBatch).EvaluatePolicyRule(get).Level; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		get.User = nil // a refused credential
		if got := BuiltIn(ModeBatch).EvaluatePolicyRule(get).Level; got != auditinternal.LevelMetadata {
			t.Errorf("%s without a user: %s", path, got)
		}
	}
	if p := BuiltIn(ModeBlockingStrict); len(p.EvaluatePolicyRule(authorizer.AttributesRecord{User: ann}).OmitStages) > 0 {
		t.Error("the strict mode omits the stage at which it refuses")
	}
}

// TestExamplePolicy: the policy of the examples can be read and asks for no body that is left out.
func TestExamplePolicy(t *testing.T) {
	p, err := LoadPolicy("../../examples/audit-policy.conf")
	if err != nil || len(p.Excess) > 0 || !p.bodies {
		t.Errorf("%+v %v", p, err)
	}
}
