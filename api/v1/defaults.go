package v1

import "k8s.io/apimachinery/pkg/runtime"

// AddDefaultsToScheme makes decoders that use scheme fill in defaults.
func AddDefaultsToScheme(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&BareMetalHost{}, func(obj any) { SetDefaultsBareMetalHost(obj.(*BareMetalHost)) })
	scheme.AddTypeDefaultingFunc(&ISCSICdrom{}, func(obj any) { SetDefaultsISCSICdrom(obj.(*ISCSICdrom)) })
}

// SetDefaultsBareMetalHost sets bootMode to once. The host name is not written
// out: it follows metadata.name (EffectiveHostname).
func SetDefaultsBareMetalHost(host *BareMetalHost) {
	if host.Spec.BootMode == "" {
		host.Spec.BootMode = BootOnce
	}
}

// SetDefaultsISCSICdrom makes an image read-only, offered over iSCSI, and for any machine.
func SetDefaultsISCSICdrom(cdrom *ISCSICdrom) {
	if cdrom.Spec.ReadOnly == nil {
		readOnly := true
		cdrom.Spec.ReadOnly = &readOnly
	}
	if cdrom.Spec.Transport == "" {
		cdrom.Spec.Transport = TransportISCSI
	}
	if cdrom.Spec.Access == "" {
		cdrom.Spec.Access = AccessAny
	}
}
