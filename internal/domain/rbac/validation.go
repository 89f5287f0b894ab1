package rbac

import (
	"cmp"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of lists, which the size of a request bounds in Kubernetes.
const (
	maxRules    = 1000
	maxSubjects = 1000
)

// MaxPermissions bounds the single permissions of a role. The check that nobody grants what he does not
// have compares each of them with each rule of the user.
const MaxPermissions = 1000

// Permissions returns the number of the single permissions of rules: a verb for a resource of a group or
// one of its names, or for a URL.
func Permissions(rules []rbacv1.PolicyRule) float64 { // an integer could overflow
	n := 0.0
	for _, r := range rules {
		resources := float64(len(r.APIGroups)) * float64(len(r.Resources)) * float64(max(1, len(r.ResourceNames)))
		n += float64(len(r.Verbs)) * (resources + float64(len(r.NonResourceURLs)))
	}
	return n
}

// SetDefaults sets the API groups of the role, the users and the groups of a binding.
func SetDefaults(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	ref.APIGroup = cmp.Or(ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			s.APIGroup = cmp.Or(s.APIGroup, rbacv1.GroupName)
		}
	}
}

// ValidateName returns the reasons why an object cannot have a name. It may have colons, as
// system:discovery has.
func ValidateName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// ValidateRole checks a Role.
func ValidateRole(role *rbacv1.Role) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&role.ObjectMeta, true, ValidateName, field.NewPath("metadata"))
	return append(errs, validateRules(role.Rules, true)...)
}

// ValidateClusterRole checks a ClusterRole.
func ValidateClusterRole(role *rbacv1.ClusterRole) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&role.ObjectMeta, false, ValidateName, field.NewPath("metadata"))
	if role.AggregationRule != nil {
		errs = append(errs, field.Forbidden(field.NewPath("aggregationRule"),
			"this server does not aggregate roles: list the rules in rules"))
	}
	return append(errs, validateRules(role.Rules, false)...)
}

func validateRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	at := field.NewPath("rules")
	if len(rules) > maxRules {
		return field.ErrorList{field.TooMany(at, len(rules), maxRules)}
	}
	if n := Permissions(rules); n > MaxPermissions {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, fmt.Sprintf(
			"the rules have %.0f permissions (verbs times resources and groups), at most %d: use *, or several roles", n,
			MaxPermissions))}
	}
	for i := range rules {
		errs = append(errs, validateRule(&rules[i], namespaced, at.Index(i))...)
	}
	return errs
}

func validateRule(rule *rbacv1.PolicyRule, namespaced bool, at *field.Path) (errs field.ErrorList) {
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
	}
	switch urls := at.Child("nonResourceURLs"); {
	case len(rule.NonResourceURLs) == 0:
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	case namespaced:
		errs = append(errs, field.Invalid(urls, rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
	case len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0:
		errs = append(errs, field.Invalid(urls, rule.NonResourceURLs,
			"rules cannot apply to both regular resources and non-resource URLs"))
	}
	return errs
}

// ValidateRoleBinding checks a RoleBinding.
func ValidateRoleBinding(b *rbacv1.RoleBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, true, ValidateName, field.NewPath("metadata"))
	return append(errs, validateBinding(&b.RoleRef, b.Subjects, true)...)
}

// ValidateClusterRoleBinding checks a ClusterRoleBinding.
func ValidateClusterRoleBinding(b *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, ValidateName, field.NewPath("metadata"))
	return append(errs, validateBinding(&b.RoleRef, b.Subjects, false)...)
}

// ValidateRoleRefUpdate checks that a binding keeps its role: who may change the subjects need not
// have the permissions of another role.
func ValidateRoleRefUpdate(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), ref, "cannot change roleRef")}
}

func validateBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	errs := validateGroup(ref.APIGroup, rbacv1.GroupName, field.NewPath("roleRef", "apiGroup"))
	kinds := []string{KindClusterRole}
	if namespaced {
		kinds = []string{KindRole, KindClusterRole}
	}
	if at := field.NewPath("roleRef", "kind"); ref.Kind != KindClusterRole && !(namespaced && ref.Kind == KindRole) {
		errs = append(errs, field.NotSupported(at, ref.Kind, kinds))
	}
	errs = append(errs, validateReference(ref.Name, field.NewPath("roleRef", "name"))...)
	at := field.NewPath("subjects")
	if len(subjects) > maxSubjects {
		return append(errs, field.TooMany(at, len(subjects), maxSubjects))
	}
	for i := range subjects {
		errs = append(errs, validateSubject(&subjects[i], namespaced, at.Index(i))...)
	}
	return errs
}

func validateReference(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if reasons := ValidateName(name, false); len(reasons) > 0 {
		return field.ErrorList{field.Invalid(at, name, strings.Join(reasons, "; "))}
	}
	return nil
}

func validateGroup(group, want string, at *field.Path) field.ErrorList {
	if group == want {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, group, []string{want})}
}

func validateSubject(s *rbacv1.Subject, namespaced bool, at *field.Path) (errs field.ErrorList) {
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		for _, reason := range apivalidation.ValidateServiceAccountName(s.Name, false) {
			if s.Name != "" {
				errs = append(errs, field.Invalid(at.Child("name"), s.Name, reason))
			}
		}
		errs = append(errs, validateGroup(s.APIGroup, "", at.Child("apiGroup"))...)
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, validateGroup(s.APIGroup, rbacv1.GroupName, at.Child("apiGroup"))...)
	default:
		errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
