package v1

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime"
)

// AddDefaultsToScheme registers the defaults, which decoders of the scheme then set.
func AddDefaultsToScheme(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&BareMetalHost{}, func(obj any) { SetDefaultsBareMetalHost(obj.(*BareMetalHost)) })
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
