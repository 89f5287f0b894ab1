package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// maxUncovered bounds the rules that a refusal names.
const maxUncovered = 20

// maxOwned bounds the rules of a user that are compared.
const maxOwned = 1000

// ConfirmNoEscalation returns an error if rules allow more than owned, the rules of a user: nobody grants
// permissions that he does not have. unresolved is an error of RulesFor, or nil.
func ConfirmNoEscalation(who user.Info, owned, rules []rbacv1.PolicyRule, unresolved error) error {
	if n := Permissions(rules); n > MaxPermissions {
		return fmt.Errorf("the role has %.0f permissions, and only roles of at most %d are compared with those of the user",
			n, MaxPermissions)
	}
	if len(owned) > maxOwned {
		return fmt.Errorf("user %q has %d rules, of which at most %d are compared with those of the role", who.GetName(),
			len(owned), maxOwned)
	}
	covered, missing := validation.Covers(owned, rules)
	if covered {
		return nil
	}
	var lines []string
	for _, rule := range missing {
		lines = append(lines, compact(rule))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if more := len(lines) - maxUncovered; more > 0 {
		lines = append(lines[:maxUncovered], fmt.Sprintf("and %d more", more))
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		who.GetName(), who.GetGroups(), strings.Join(lines, "\n"))
	if unresolved != nil {
		text += "; resolution errors: " + unresolved.Error()
	}
	return fmt.Errorf("%s", text)
}

// compact writes a rule as kube-apiserver does.
func compact(r rbacv1.PolicyRule) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"ResourceNames", r.ResourceNames},
		{"NonResourceURLs", r.NonResourceURLs}, {"Verbs", r.Verbs},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
