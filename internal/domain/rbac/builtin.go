package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Names of the built-in roles.
const (
	ClusterAdmin = "cluster-admin"
	Admin        = "admin"
	Edit         = "edit"
	View         = "view"
	BasicUser    = "system:basic-user"
	Discovery    = "system:discovery"
	Monitoring   = "system:monitoring"
)

// Verbs of rights.
var (
	Reading = []string{"get", "list", "watch"}
	Writing = []string{"create", "delete", "deletecollection", "patch", "update"}
	Getting = []string{"get"}
)

// Right is what a built-in role, one of View, Edit and Admin, may do with a resource, which may have a
// subresource, such as baremetalhosts/status. Edit has the rights of View as well, and Admin those of both.
type Right struct {
	Role            string
	Verbs           []string
	Group, Resource string
}

// predictions are the rights to what is no kind. The predictions of explain and plan concern hosts of all namespaces.
var predictions = []Right{
	{Role: View, Verbs: []string{"list"}, Resource: "explain"}, {Role: Edit, Verbs: []string{"create"}, Resource: "impact"},
}

// rulesOf returns the rules for the rights of some roles: one rule for each set of verbs in a group.
func rulesOf(rights []Right, roles ...string) (rules []rbacv1.PolicyRule) {
	for _, r := range rights {
		if !slices.Contains(roles, r.Role) {
			continue
		}
		i := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == r.Group && slices.Equal(rule.Verbs, r.Verbs)
		})
		if i < 0 {
			i = len(rules)
			rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: []string{r.Group}})
		}
		rules[i].Resources = append(rules[i].Resources, r.Resource)
	}
	return rules
}

// ClusterRoles returns the built-in roles, with rights to the kinds.
func ClusterRoles(rights []Right) []*rbacv1.ClusterRole {
	all := []string{rbacv1.ResourceAll}
	rights = append(slices.Clone(predictions), rights...)
	return []*rbacv1.ClusterRole{
		{ObjectMeta: builtin(ClusterAdmin), Rules: []rbacv1.PolicyRule{
			{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all},
		}},
		{ObjectMeta: builtin(Admin), Rules: rulesOf(rights, View, Edit, Admin)},
		{ObjectMeta: builtin(Edit), Rules: rulesOf(rights, View, Edit)},
		{ObjectMeta: builtin(View), Rules: rulesOf(rights, View)},
		{ObjectMeta: builtin(BasicUser), Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"},
				Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
			{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
		}},
		{ObjectMeta: builtin(Discovery), Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
				"/openapi", "/openapi/*", "/readyz", "/version", "/version/"}},
		}},
		{ObjectMeta: builtin(Monitoring), Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics",
				"/readyz", "/readyz/*"}},
		}},
	}
}

// ClusterRoleBindings returns the bindings of the built-in roles.
func ClusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	bind := func(role, group string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: builtin(role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: KindClusterRole, Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
		}
	}
	return []*rbacv1.ClusterRoleBinding{
		bind(ClusterAdmin, user.SystemPrivilegedGroup),
		bind(BasicUser, user.AllAuthenticated),
		bind(Discovery, user.AllAuthenticated),
		bind(Monitoring, user.MonitoringGroup),
	}
}

// builtin returns the metadata of a built-in object. The annotation says that a start of the server
// adds what is missing in it, as in Kubernetes.
func builtin(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}
