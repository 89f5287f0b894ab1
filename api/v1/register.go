package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the legacy core group.
const GroupName = ""

// SchemeGroupVersion is the one version that is served and stored.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// Resource returns the GroupResource of a resource name, for errors.
func Resource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: GroupName, Resource: resource}
}

// AddKnownTypes registers the kinds for gv. It is called for v1 and for the internal
// version of the API library, which have the same Go types.
func AddKnownTypes(scheme *runtime.Scheme, gv schema.GroupVersion) {
	scheme.AddKnownTypes(gv,
		&IgnitionConfig{}, &IgnitionConfigList{},
		&BareMetalHost{}, &BareMetalHostList{},
		&Boot{}, &BootList{},
		&ISCSICdrom{}, &ISCSICdromList{},
		&StreamRelease{}, &StreamReleaseList{},
		&ConfigMap{}, &ConfigMapList{},
		&Secret{}, &SecretList{},
		&Namespace{}, &NamespaceList{},
		&Event{}, &EventList{},
		&UnknownMachine{}, &UnknownMachineList{},
		&Lease{}, &LeaseList{},
		&Member{}, &MemberList{},
		&ServiceAccount{}, &ServiceAccountList{},
		&Token{}, &TokenList{},
	)
}

// AddToScheme registers v1, for clients.
func AddToScheme(scheme *runtime.Scheme) error {
	AddKnownTypes(scheme, SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

// AddDefaultsToScheme registers the defaults, which decoders of the scheme then set.
func AddDefaultsToScheme(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&BareMetalHost{}, func(obj any) { SetDefaultsBareMetalHost(obj.(*BareMetalHost)) })
	scheme.AddTypeDefaultingFunc(&Secret{}, func(obj any) { SetDefaultsSecret(obj.(*Secret)) })
	scheme.AddTypeDefaultingFunc(&ISCSICdrom{}, func(obj any) { SetDefaultsISCSICdrom(obj.(*ISCSICdrom)) })
}

// SetDefaultsBareMetalHost sets bootMode to "once". The default of hostname is not stored,
// so that it is always metadata.name (EffectiveHostname).
func SetDefaultsBareMetalHost(host *BareMetalHost) {
	host.Spec.BootMode = cmp.Or(host.Spec.BootMode, BootOnce)
}

// SetDefaultsISCSICdrom makes an image read-only, served over iSCSI, and readable by any
// machine.
func SetDefaultsISCSICdrom(cdrom *ISCSICdrom) {
	if cdrom.Spec.ReadOnly == nil {
		cdrom.Spec.ReadOnly = new(true)
	}
	cdrom.Spec.Transport = cmp.Or(cdrom.Spec.Transport, TransportISCSI)
	cdrom.Spec.Access = cmp.Or(cdrom.Spec.Access, AccessAny)
}
