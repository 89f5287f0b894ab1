// Package kinds lists the kinds of objects: the bucket of each, and the form in which the bucket holds its objects.
package kinds

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// Names of the resources.
const (
	IgnitionConfigs = "ignitionconfigs"
	BareMetalHosts  = "baremetalhosts"
	ISCSICdroms     = "iscsicdroms"
	StreamReleases  = "streamreleases"
	ConfigMaps      = "configmaps"
	Secrets         = "secrets"
	Namespaces      = "namespaces"
	Events          = "events"
	UnknownMachines = "unknownmachines"
	ServiceAccounts = "serviceaccounts"
	Tokens          = "tokens"

	// Those of the API group rbac.authorization.k8s.io.
	Roles               = "roles"
	RoleBindings        = "rolebindings"
	ClusterRoles        = "clusterroles"
	ClusterRoleBindings = "clusterrolebindings"
)

// Access are the resources of the API group rbac.authorization.k8s.io, which decide who may do what.
var Access = []string{Roles, RoleBindings, ClusterRoles, ClusterRoleBindings}

// clusterScoped are the resources whose objects have no namespace.
var clusterScoped = []string{StreamReleases, Namespaces, UnknownMachines, ClusterRoles, ClusterRoleBindings}

// Namespaced reports whether the objects of a resource have namespaces.
func Namespaced(resource string) bool { return !slices.Contains(clusterScoped, resource) }

// GroupVersion returns the API group and the version of a resource.
func GroupVersion(resource string) schema.GroupVersion {
	if slices.Contains(Access, resource) {
		return rbacv1.SchemeGroupVersion
	}
	return v1.SchemeGroupVersion
}

// GroupResource returns a resource with its API group, for errors.
func GroupResource(resource string) schema.GroupResource {
	return GroupVersion(resource).WithResource(resource).GroupResource()
}

// Transient are the buckets whose objects may be lost without an alarm.
var Transient = []string{"EVENTS", "UNKNOWNMACHINES"}

// restoredHost is the second step for a host that was lost: its status is lost as well.
const restoredHost = "If its machine was provisioned, say so before it boots, or it may be installed again: " +
	`kubectl patch bmh NAME -n NAMESPACE --subresource=status --type=merge -p '{"status":{"state":"Provisioned"}}'`

// All returns the kinds.
func All() []kvstore.Kind {
	hosts := newKind[v1.BareMetalHost, v1.BareMetalHostList](BareMetalHosts)
	hosts.Restored = restoredHost
	configs := newKind[v1.IgnitionConfig, v1.IgnitionConfigList](IgnitionConfigs)
	configs.Note = snapshot.Outline
	events := newKind[v1.Event, v1.EventList](Events)
	events.Transient = true
	unknown := newKind[v1.UnknownMachine, v1.UnknownMachineList](UnknownMachines)
	unknown.Transient = true
	return []kvstore.Kind{
		configs,
		hosts,
		newKind[v1.ISCSICdrom, v1.ISCSICdromList](ISCSICdroms),
		newKind[v1.StreamRelease, v1.StreamReleaseList](StreamReleases),
		newKind[v1.ConfigMap, v1.ConfigMapList](ConfigMaps),
		newKind[v1.Secret, v1.SecretList](Secrets),
		newKind[v1.Namespace, v1.NamespaceList](Namespaces),
		events,
		unknown,
		newKind[v1.ServiceAccount, v1.ServiceAccountList](ServiceAccounts),
		newKind[v1.Token, v1.TokenList](Tokens),
		newKind[rbacv1.Role, rbacv1.RoleList](Roles),
		newKind[rbacv1.RoleBinding, rbacv1.RoleBindingList](RoleBindings),
		newKind[rbacv1.ClusterRole, rbacv1.ClusterRoleList](ClusterRoles),
		newKind[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](ClusterRoleBindings),
	}
}

// object is a pointer to a K.
type object[K any] interface {
	*K
	runtime.Object
}

func newKind[K, L any, PK object[K], PL object[L]](resource string) kvstore.Kind {
	return kvstore.Kind{
		Bucket: strings.ToUpper(resource), Resource: resource,
		Codec:   codec{GroupVersion(resource).WithKind(reflect.TypeFor[K]().Name())},
		New:     func() runtime.Object { return PK(new(K)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// codec stores an object as JSON, with its apiVersion and kind.
type codec struct{ kind schema.GroupVersionKind }

// storedConfig is an IgnitionConfig in its bucket. One more top-level member has the
// compilation, which no response of the API contains.
type storedConfig struct {
	*v1.IgnitionConfig
	Compiled *v1.Compiled `json:"compiled,omitempty"`
}

// Encode returns the stored form of an object, which it leaves as it was.
func (c codec) Encode(obj runtime.Object) ([]byte, error) {
	was := obj.GetObjectKind().GroupVersionKind()
	obj.GetObjectKind().SetGroupVersionKind(c.kind)
	defer obj.GetObjectKind().SetGroupVersionKind(was)
	var value any = obj
	if config, ok := obj.(*v1.IgnitionConfig); ok {
		value = &storedConfig{IgnitionConfig: config, Compiled: config.Compiled}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Decode reads a stored object. The object in memory has no apiVersion and kind: the
// encoders of the API write them.
func (codec) Decode(value []byte, into runtime.Object) error {
	reflect.ValueOf(into).Elem().SetZero() // it may have been decoded into before
	defer func() { into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) }()
	config, ok := into.(*v1.IgnitionConfig)
	if !ok {
		return json.Unmarshal(value, into)
	}
	stored := storedConfig{IgnitionConfig: config}
	err := json.Unmarshal(value, &stored)
	config.Compiled = stored.Compiled
	return err
}
