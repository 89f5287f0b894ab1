// Package kinds describes each kind of object once: its names, the functions that make and check an
// object, what machines and namespaces need it for, and who may do what with it. The API, the store, the
// client, the commands and the built-in roles derive from it what they need.
package kinds

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
)

// Names of the resources.
const (
	IgnitionConfigs = "ignitionconfigs"
	BareMetalHosts  = "baremetalhosts"
	Boots           = "boots"
	ISCSICdroms     = "iscsicdroms"
	StreamReleases  = "streamreleases"
	ConfigMaps      = "configmaps"
	Secrets         = "secrets"
	Namespaces      = "namespaces"
	Events          = "events"
	UnknownMachines = "unknownmachines"
	Leases          = "leases"
	Members         = "members"
	ServiceAccounts = "serviceaccounts"
	Tokens          = "tokens"

	// Those of the API group rbac.authorization.k8s.io.
	Roles               = "roles"
	RoleBindings        = "rolebindings"
	ClusterRoles        = "clusterroles"
	ClusterRoleBindings = "clusterrolebindings"
)

// Kind describes a kind of object.
type Kind struct {
	// Name is the kind, such as BareMetalHost. Resource is its plural and Singular its name, in lower case;
	// ShortName is that of kubectl; "": none.
	Name, Resource, Singular, ShortName string
	schema.GroupVersion
	// Namespaced is true where the objects have namespaces.
	Namespaced bool
	// InAll is true where kubectl get all shows the objects.
	InAll bool
	// New and NewList return an empty object and an empty list.
	New, NewList func() runtime.Object
	// Default sets the fields of a manifest that may be left out; nil: there are none.
	Default func(runtime.Object)
	// Validate returns the errors of an object; nil: the server alone writes the objects.
	Validate func(runtime.Object) field.ErrorList
	// InManifests is true where manifests may contain the kind.
	InManifests bool
	// Boot says what machines need the kind for.
	Boot Need
	// Transient is true where objects may be lost without an alarm.
	Transient bool
	// Passing is true where a backup leaves the objects out: they are of the moment.
	Passing bool
	// Restored is what an operator does after the object was lost and is applied again; "": nothing.
	Restored string
	// Rights are those of the built-in roles.
	Rights []rbac.Right
}

// Need says what machines need a kind for.
type Need uint8

// Unneeded is for kinds that no answer needs. Without the bucket of SomeAnswers the answers that do not need it are
// given; without that of AllAnswers none is.
const (
	Unneeded Need = iota
	SomeAnswers
	AllAnswers
)

// restoredHost is the second step for a host that was lost: its status is lost as well.
const restoredHost = "If its machine was provisioned, say so before it boots, or it may be installed again: " +
	`kubectl patch bmh NAME -n NAMESPACE --subresource=status --type=merge -p '{"status":{"state":"Provisioned"}}'`

// all are the kinds in the order of All.
var all = []*Kind{
	describe[v1.BareMetalHost, v1.BareMetalHostList](Kind{
		Resource: BareMetalHosts, ShortName: "bmh", Namespaced: true, InAll: true, InManifests: true, Boot: AllAnswers,
		Restored: restoredHost, Rights: slices.Concat(rights(rbac.View, rbac.Reading, "", "/status"),
			rights(rbac.View, rbac.Getting, "/explain"), rights(rbac.Edit, rbac.Writing, "", "/status"),
			rights(rbac.Edit, rbac.Getting, "/credentials")),
	}, v1.ValidateBareMetalHost, nil),
	describe[v1.Boot, v1.BootList](Kind{
		Resource: Boots, Namespaced: true, Boot: AllAnswers, Restored: restoredHost,
		Rights: append(rights(rbac.View, rbac.Reading, ""), rights(rbac.Edit, rbac.Getting, "/rendered")...),
	}, nil, nil),
	describe[v1.IgnitionConfig, v1.IgnitionConfigList](Kind{
		Resource: IgnitionConfigs, ShortName: "ign", Namespaced: true, InAll: true, InManifests: true, Boot: AllAnswers,
		Rights: slices.Concat(rights(rbac.View, rbac.Reading, "", "/status"),
			rights(rbac.Edit, rbac.Writing, ""), rights(rbac.Edit, rbac.Getting, "/rendered", "/source")),
	}, v1.ValidateIgnitionConfig, nil),
	describe[v1.ISCSICdrom, v1.ISCSICdromList](Kind{
		Resource: ISCSICdroms, ShortName: "cdrom", Namespaced: true, InAll: true, InManifests: true, Boot: SomeAnswers,
		Rights: slices.Concat(rights(rbac.View, rbac.Reading, "", "/status"),
			rights(rbac.Edit, rbac.Writing, "", "/status"), rights(rbac.Edit, rbac.Getting, "/credentials"),
			rights(rbac.Edit, []string{"get", "update"}, "/iso")),
	}, v1.ValidateISCSICdrom, nil),
	describe[v1.StreamRelease, v1.StreamReleaseList](Kind{
		Resource: StreamReleases, ShortName: "sr", InManifests: true, Boot: SomeAnswers,
		Rights: rights(rbac.View, rbac.Reading, "", "/status"),
	}, validateStreamRelease, nil),
	describe[v1.ConfigMap, v1.ConfigMapList](Kind{
		Resource: ConfigMaps, ShortName: "cm", Namespaced: true, InManifests: true,
		Rights: append(rights(rbac.View, rbac.Reading, ""), rights(rbac.Edit, rbac.Writing, "")...),
	}, v1.ValidateConfigMap, nil),
	describe[v1.Secret, v1.SecretList](Kind{
		Resource: Secrets, Namespaced: true, InManifests: true, Boot: SomeAnswers,
		Rights: rights(rbac.Edit, slices.Concat(rbac.Reading, rbac.Writing), ""),
	}, v1.ValidateSecret, v1.SetDefaultsSecret),
	describe[v1.ServiceAccount, v1.ServiceAccountList](Kind{
		Resource: ServiceAccounts, ShortName: "sa", Namespaced: true, InManifests: true,
		Rights: slices.Concat(rights(rbac.View, rbac.Reading, ""),
			rights(rbac.Admin, append(slices.Clone(rbac.Writing), "impersonate"), ""),
			rights(rbac.Admin, []string{"create"}, "/token")),
	}, v1.ValidateServiceAccount, nil),
	describe[v1.Token, v1.TokenList](Kind{
		Resource: Tokens, Namespaced: true,
		Rights: rights(rbac.Admin, []string{"delete", "deletecollection", "get", "list", "watch"}, ""),
	}, nil, nil),
	describe[rbacv1.RoleBinding, rbacv1.RoleBindingList](Kind{
		Resource: RoleBindings, GroupVersion: rbacv1.SchemeGroupVersion, Namespaced: true, InManifests: true,
		Boot:   SomeAnswers,
		Rights: rights(rbac.Admin, slices.Concat(rbac.Reading, rbac.Writing), ""),
	}, rbac.ValidateRoleBinding, func(b *rbacv1.RoleBinding) { rbac.SetDefaults(&b.RoleRef, b.Subjects) }),
	describe[rbacv1.Role, rbacv1.RoleList](Kind{
		Resource: Roles, GroupVersion: rbacv1.SchemeGroupVersion, Namespaced: true, InManifests: true, Boot: SomeAnswers,
		Rights: rights(rbac.Admin, slices.Concat(rbac.Reading, rbac.Writing), ""),
	}, rbac.ValidateRole, nil),
	describe[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](Kind{
		Resource: ClusterRoleBindings, GroupVersion: rbacv1.SchemeGroupVersion, InManifests: true, Boot: SomeAnswers,
	}, rbac.ValidateClusterRoleBinding, func(b *rbacv1.ClusterRoleBinding) { rbac.SetDefaults(&b.RoleRef, b.Subjects) }),
	describe[rbacv1.ClusterRole, rbacv1.ClusterRoleList](Kind{
		Resource: ClusterRoles, GroupVersion: rbacv1.SchemeGroupVersion, InManifests: true, Boot: SomeAnswers,
	}, rbac.ValidateClusterRole, nil),
	describe[v1.Namespace, v1.NamespaceList](Kind{
		Resource: Namespaces, ShortName: "ns", InManifests: true, Boot: SomeAnswers,
		Rights: rights(rbac.View, rbac.Reading, ""),
	}, v1.ValidateNamespace, nil),
	describe[v1.UnknownMachine, v1.UnknownMachineList](Kind{
		Resource: UnknownMachines, ShortName: "um", Transient: true,
		Rights: rights(rbac.View, rbac.Reading, ""),
	}, nil, nil),
	describe[v1.Lease, v1.LeaseList](Kind{
		Resource: Leases, Transient: true, Passing: true, Rights: rights(rbac.View, rbac.Reading, ""),
	}, nil, nil),
	describe[v1.Member, v1.MemberList](Kind{
		Resource: Members, ShortName: "mb", Transient: true, Passing: true, Rights: rights(rbac.View, rbac.Reading, ""),
	}, nil, nil),
	describe[v1.Event, v1.EventList](Kind{
		Resource: Events, ShortName: "ev", Namespaced: true, Transient: true, Passing: true,
		Rights: append(rights(rbac.View, rbac.Reading, ""), rights(rbac.Edit, rbac.Writing, "")...),
	}, v1.ValidateEvent, nil),
}

// rights returns the rights of a role to a resource and its subresources, each "" or "/NAME".
func rights(role string, verbs []string, parts ...string) (all []rbac.Right) {
	for _, part := range parts {
		all = append(all, rbac.Right{Role: role, Verbs: verbs, Resource: part})
	}
	return all
}

// All returns the kinds, those whose objects use others before these: the order in which the objects of a namespace
// are deleted. Manifests are applied in the opposite order. The list must not be changed.
func All() []*Kind { return all }

// Of returns the kind of a resource; nil: there is none.
func Of(resource string) *Kind { return byResource[resource] }

// Named returns the kind that kubectl calls so: by its resource, its singular or its short name; nil: there is none.
func Named(name string) *Kind {
	i := slices.IndexFunc(all, func(k *Kind) bool {
		return name != "" && (name == k.Resource || name == k.Singular || name == k.ShortName)
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// InManifests returns the kind with a name, if manifests may contain it; nil: there is none.
func InManifests(name string) *Kind {
	if i := Position(name); i >= 0 && all[i].InManifests {
		return all[i]
	}
	return nil
}

// Position returns the position in All of the kind with a name; -1: there is none.
func Position(name string) int {
	return slices.IndexFunc(all, func(k *Kind) bool { return k.Name == name })
}

// NamesInManifests returns the names of the kinds that manifests may contain, in the order of All.
func NamesInManifests() (names []string) {
	for _, k := range all {
		if k.InManifests {
			names = append(names, k.Name)
		}
	}
	return names
}

// Content returns the resources of the objects that a namespace contains, in the order of All.
func Content() (resources []string) {
	for _, k := range all {
		if k.Namespaced {
			resources = append(resources, k.Resource)
		}
	}
	return resources
}

// BuiltinRoles returns the built-in ClusterRoles.
func BuiltinRoles() []*rbacv1.ClusterRole {
	var given []rbac.Right
	for _, k := range all {
		for _, right := range k.Rights {
			right.Group, right.Resource = k.Group, k.Resource+right.Resource
			given = append(given, right)
		}
	}
	return rbac.ClusterRoles(given)
}
