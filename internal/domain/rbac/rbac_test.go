package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// reference reads the rules of RBAC as their documentation has them, one sentence a line: a request is
// allowed if any rule of any role that any binding gives to the user matches it in each part.
func reference(p *Policy, a authorizer.AttributesRecord) bool {
	matches := func(rule rbacv1.PolicyRule) bool {
		any := func(values []string, ok func(string) bool) bool { return slices.ContainsFunc(values, ok) }
		is := func(want string) func(string) bool { return func(v string) bool { return v == "*" || v == want } }
		if !any(rule.Verbs, is(a.Verb)) {
			return false
		}
		if !a.ResourceRequest {
			return any(rule.NonResourceURLs, func(url string) bool {
				isPrefix := strings.HasSuffix(url, "*") // kube-apiserver ignores how many there are
				return url == a.Path || isPrefix && strings.HasPrefix(a.Path, strings.TrimRight(url, "*"))
			})
		}
		named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name)
		return named && any(rule.APIGroups, is(a.APIGroup)) && any(rule.Resources, func(r string) bool {
			resource, subresource, hasSub := strings.Cut(r, "/")
			switch {
			case r == "*":
				return true
			case hasSub != (a.Subresource != ""):
				return false
			case !hasSub:
				return resource == a.Resource
			}
			return subresource == a.Subresource && (resource == "*" || resource == a.Resource)
		})
	}
	isSubject := func(subjects []rbacv1.Subject, bindingNamespace string) bool {
		for _, s := range subjects {
			if s.Kind == "ServiceAccount" && s.Namespace == "" {
				s.Namespace = bindingNamespace
			}
			if s.Kind == "User" && s.Name == a.User.GetName() ||
				s.Kind == "Group" && slices.Contains(a.User.GetGroups(), s.Name) ||
				s.Kind == "ServiceAccount" && s.Namespace != "" &&
					a.User.GetName() == "system:serviceaccount:"+s.Namespace+":"+s.Name {
				return true
			}
		}
		return false
	}
	var rules []rbacv1.PolicyRule
	role := func(ref rbacv1.RoleRef, namespace string) {
		if r := p.ClusterRoles[ref.Name]; ref.Kind == "ClusterRole" && r != nil {
			rules = append(rules, r.Rules...)
		}
		if r := p.Roles[Key{namespace, ref.Name}]; ref.Kind == "Role" && r != nil {
			rules = append(rules, r.Rules...)
		}
	}
	for namespace, in := range p.bindings {
		for _, b := range in.byName {
			if (namespace == "" || namespace == a.Namespace) && isSubject(b.Subjects, namespace) {
				role(b.RoleRef, namespace)
			}
		}
	}
	return slices.ContainsFunc(rules, matches)
}

// world makes random policies and requests of few values, so that they meet.
type world struct{ *rand.Rand }

func (w world) one(values ...string) string { return values[w.IntN(len(values))] }

func (w world) some(values ...string) (out []string) {
	for range 1 + w.IntN(3) {
		out = append(out, w.one(values...))
	}
	return out
}

func (w world) rules() (rules []rbacv1.PolicyRule) {
	for range 2 + w.IntN(4) {
		rule := rbacv1.PolicyRule{Verbs: w.some("get", "list", "create", "*")}
		if w.IntN(5) == 0 {
			rule.NonResourceURLs = w.some("/api", "/api/*", "/apis*", "*", "/healthz", "/a**")
		} else {
			rule.APIGroups = w.some("", "rbac.authorization.k8s.io", "*")
			rule.Resources = w.some("pods", "pods/log", "nodes", "*", "*/log", "*/status", "nodes/status", "pods/*")
			if w.IntN(4) == 0 {
				rule.ResourceNames = w.some("a", "b", "")
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

func (w world) subjects() (subjects []rbacv1.Subject) {
	for range 1 + w.IntN(4) {
		s := rbacv1.Subject{Kind: w.one("User", "Group", "ServiceAccount"), Name: w.one("ann", "bob", "ops", "robot")}
		if s.Kind == "ServiceAccount" {
			s.Namespace = w.one("", "n1", "n2")
		}
		if s.Kind == "User" && w.IntN(4) == 0 {
			s.Name = "system:serviceaccount:n1:robot"
		}
		subjects = append(subjects, s)
	}
	return subjects
}

func (w world) policy() *Policy {
	p := &Policy{Roles: map[Key]*rbacv1.Role{}, ClusterRoles: map[string]*rbacv1.ClusterRole{}}
	for i := range 3 {
		name, namespace := fmt.Sprint("r", i), w.one("n1", "n2")
		p.Roles[Key{namespace, name}] = &rbacv1.Role{Rules: w.rules()}
		p.ClusterRoles[name] = &rbacv1.ClusterRole{Rules: w.rules()}
	}
	for i := range 2 + w.IntN(6) {
		ref := rbacv1.RoleRef{Kind: w.one(KindRole, KindClusterRole), Name: w.one("r0", "r1", "r2", "none")}
		p.Bind(Key{w.one("n1", "n2"), fmt.Sprint("b", i)}, Binding{ref, w.subjects()})
	}
	for i := range w.IntN(4) {
		ref := rbacv1.RoleRef{Kind: KindClusterRole, Name: w.one("r0", "r1", "none")}
		p.Bind(Key{Name: fmt.Sprint("c", i)}, Binding{ref, w.subjects()})
	}
	for range w.IntN(4) { // some are replaced or removed
		at := Key{w.one("", "n1", "n2"), w.one("b0", "b1", "b2", "c0", "c1")}
		if b, ok := p.binding(at); ok && w.IntN(2) == 0 {
			p.Bind(at, Binding{b.RoleRef, w.subjects()})
		} else {
			p.Unbind(at)
		}
	}
	return p
}

// binding returns the binding with a key.
func (p *Policy) binding(at Key) (b Binding, ok bool) {
	if in := p.bindings[at.Namespace]; in != nil {
		b, ok = in.byName[at.Name]
	}
	return b, ok
}

func (w world) request() authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{
			Name:   w.one("ann", "bob", "system:serviceaccount:n1:robot", "system:serviceaccount:n2:robot"),
			Groups: w.some("ops", "others", "system:authenticated"),
		},
		Verb: w.one("get", "list", "create", "delete"), ResourceRequest: w.IntN(5) > 0,
	}
	if !a.ResourceRequest {
		a.Path = w.one("/api", "/api/v1", "/apis", "/apis/x", "/healthz", "/ab", "/")
		return a
	}
	a.Namespace, a.APIGroup, a.Resource = w.one("", "n1", "n1", "n2", "n2", "n3"),
		w.one("", "", "rbac.authorization.k8s.io"), w.one("pods", "nodes")
	a.Subresource, a.Name = w.one("", "", "log", "status"), w.one("", "a", "b", "c")
	return a
}

// TestRolesAreThoseOfRBAC compares 2,000 random (roles, bindings, request) triples with a direct reading of
// the rules.
func TestRolesAreThoseOfRBAC(t *testing.T) {
	seed := rand.Uint64()
	w, allowed := world{rand.New(rand.NewPCG(seed, 1))}, 0
	for i := range 2000 {
		p, a := w.policy(), w.request()
		got, reason := p.Authorize(a)
		if want := reference(p, a); got != want {
			t.Fatalf("seed %d, triple %d: %t (%s), want %t: %+v", seed, i, got, reason, want, a)
		}
		rules, _ := p.RulesFor(a.User, a.Namespace)
		if Allows(rules, a) != got {
			t.Fatalf("seed %d, triple %d: RulesFor says otherwise: %v", seed, i, rules)
		}
		if got {
			allowed++
		}
	}
	if allowed < 200 || allowed > 1800 {
		t.Errorf("%d of 2000 are allowed: the triples show little", allowed)
	}
	t.Logf("%d of 2000 are allowed", allowed)
}

// TestReasons: an answer names the binding that allows a request, or the role that is missing.
func TestReasons(t *testing.T) {
	p := &Policy{ClusterRoles: map[string]*rbacv1.ClusterRole{"view": {Rules: configRules(Reading)}}}
	p.Bind(Key{"n1", "ann"}, Binding{
		rbacv1.RoleRef{Kind: KindClusterRole, Name: "view"}, []rbacv1.Subject{{Kind: "User", Name: "ann"}},
	})
	p.Bind(Key{Name: "lost"}, Binding{
		rbacv1.RoleRef{Kind: KindClusterRole, Name: "none"}, []rbacv1.Subject{{Kind: "User", Name: "bob"}},
	})
	get := authorizer.AttributesRecord{
		Verb: "get", Namespace: "n1", Resource: "ignitionconfigs", Name: "x", ResourceRequest: true,
	}
	for name, want := range map[string]string{
		"ann": `RBAC: allowed by RoleBinding "ann/n1" of ClusterRole "view" to User "ann"`,
		"bob": `RBAC: clusterroles.rbac.authorization.k8s.io "none" not found`,
		"eve": "",
	} {
		get.User = &user.DefaultInfo{Name: name}
		if _, reason := p.Authorize(get); reason != want {
			t.Errorf("%s: %s", name, reason)
		}
	}
}

// TestLargeRolesAreRefused: the comparison of a role with the rules of a user is bounded, whatever the role.
func TestLargeRolesAreRefused(t *testing.T) {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	rules := []rbacv1.PolicyRule{{Verbs: many, APIGroups: many, Resources: many, ResourceNames: many}}
	who := &user.DefaultInfo{Name: "ann"}
	if err := ConfirmNoEscalation(who, nil, rules, nil); err == nil || !strings.Contains(err.Error(), "permissions") {
		t.Error(err)
	}
	if errs := validateRules(rules, true); len(errs) != 1 || !strings.Contains(errs[0].Error(), "at most 1000") {
		t.Error(errs)
	}
	owned := make([]rbacv1.PolicyRule, maxOwned+1)
	if err := ConfirmNoEscalation(who, owned, configRules(Reading), nil); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}

// BenchmarkAuthorize: the time for one user among the bindings of others in the namespace.
func BenchmarkAuthorize(b *testing.B) {
	for _, others := range []int{0, 500, 5000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			p := &Policy{ClusterRoles: map[string]*rbacv1.ClusterRole{"edit": {Rules: configRules(Reading, Writing)}}}
			for i := range others + 1 {
				name := fmt.Sprint("u", i)
				p.Bind(Key{"n1", name}, Binding{
					rbacv1.RoleRef{Kind: KindClusterRole, Name: "edit"}, []rbacv1.Subject{{Kind: "User", Name: name}},
				})
			}
			a := authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "u0", Groups: []string{"system:authenticated"}}, Verb: "create",
				Namespace: "n1", Resource: "ignitionconfigs", ResourceRequest: true,
			}
			for b.Loop() {
				if allowed, _ := p.Authorize(a); !allowed {
					b.Fatal("it is not allowed")
				}
			}
		})
	}
}

// configRules returns rules for configs.
func configRules(verbs ...[]string) (rules []rbacv1.PolicyRule) {
	for _, v := range verbs {
		rules = append(rules, rbacv1.PolicyRule{Verbs: v, APIGroups: []string{""}, Resources: []string{"ignitionconfigs"}})
	}
	return rules
}
