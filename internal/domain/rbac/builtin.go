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

var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"create", "delete", "deletecollection", "patch", "update"}

	// namespaced are the kinds of a namespace whose objects edit writes.
	namespaced = []string{"baremetalhosts", "configmaps", "ignitionconfigs", "iscsicdroms"}
)

// rule returns a rule for resources of the legacy core group.
func rule(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: resources}
}

func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(reading, append(slices.Clone(namespaced), "baremetalhosts/status", "events", "ignitionconfigs/status",
			"iscsicdroms/status", "namespaces", "serviceaccounts", "streamreleases", "streamreleases/status",
			"unknownmachines")...),
		// The predictions of explain and plan concern hosts of all namespaces.
		rule([]string{"list"}, "explain"),
	}
}

func editRules() []rbacv1.PolicyRule {
	return append(viewRules(),
		rule(writing, append(slices.Clone(namespaced), "baremetalhosts/status", "iscsicdroms/status", "events")...),
		rule([]string{"get"}, "baremetalhosts/credentials", "ignitionconfigs/rendered",
			"ignitionconfigs/source", "iscsicdroms/credentials"),
		rule([]string{"get", "update"}, "iscsicdroms/iso"),
		rule(slices.Concat(reading, writing), "secrets"),
		rule([]string{"create"}, "impact"),
	)
}

// adminRules has the tokens of ServiceAccounts. In Kubernetes edit has them too, since who may run Pods
// may use any account of the namespace anyway. Here that would give edit the rights of admin.
func adminRules() []rbacv1.PolicyRule {
	return append(editRules(),
		rbacv1.PolicyRule{
			Verbs: append(slices.Clone(reading), writing...), APIGroups: []string{rbacv1.GroupName},
			Resources: []string{"rolebindings", "roles"},
		},
		rule(append(slices.Clone(writing), "impersonate"), "serviceaccounts"),
		rule([]string{"create"}, "serviceaccounts/token"),
		rule([]string{"delete", "deletecollection", "get", "list", "watch"}, "tokens"),
	)
}

// ClusterRoles returns the built-in roles.
func ClusterRoles() []*rbacv1.ClusterRole {
	all := []string{rbacv1.ResourceAll}
	return []*rbacv1.ClusterRole{
		{ObjectMeta: builtin(ClusterAdmin), Rules: []rbacv1.PolicyRule{
			{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all},
		}},
		{ObjectMeta: builtin(Admin), Rules: adminRules()},
		{ObjectMeta: builtin(Edit), Rules: editRules()},
		{ObjectMeta: builtin(View), Rules: viewRules()},
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
