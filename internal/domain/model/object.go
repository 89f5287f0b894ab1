package model

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// HostFrom returns an object as it would be once it is stored; nil where it cannot
// be read.
func HostFrom(host *v1.BareMetalHost) *Host {
	status := &host.Status
	stored := storedHost{Metadata: metadataOf(&host.ObjectMeta), Spec: host.Spec, Status: hostStatus{
		State:      status.State,
		LastScript: whole(status.LastScript), LastSeen: whole(status.LastSeen), LastBoot: whole(status.LastBoot),
		Rearmed: status.Rearmed, BootCount: status.BootCount,
		Armed: whole(status.Armed), Provisioning: status.Provisioning,
	}}
	if status.Hardware != nil {
		stored.Status.Hardware = 1
	}
	for _, c := range status.Conditions {
		stored.Status.Conditions = append(stored.Status.Conditions, condition{Type: c.Type, Status: string(c.Status)})
	}
	h, _ := newHost(Ref{Namespace: host.Namespace, Name: host.Name}, 0, &stored, nil) // nil beside an error
	return h
}

// ImageFrom is HostFrom for an image.
func ImageFrom(cdrom *v1.ISCSICdrom) *Image {
	status := &cdrom.Status
	stored := storedImage{Metadata: metadataOf(&cdrom.ObjectMeta), Spec: cdrom.Spec, Status: imageStatus{
		Phase: status.Phase, ErrorMessage: status.ErrorMessage, SHA256: status.SHA256, Files: status.Files,
		ServedRelease: status.ServedRelease, MaxIgnition: status.MaxIgnition, TargetIQN: status.TargetIQN,
		Architectures: status.Architectures, Distro: status.Distro, KernelArgsApplied: status.KernelArgsApplied,
		OwnKernelArgs: status.OwnKernelArgs,
	}}
	for _, c := range status.Conditions {
		stored.Status.Conditions = append(stored.Status.Conditions, imageCondition{
			condition{c.Type, string(c.Status)}, c.Message})
	}
	return newImage(Ref{Namespace: cdrom.Namespace, Name: cdrom.Name}, 0, &stored)
}

// ConfigFrom is HostFrom for a config.
func ConfigFrom(config *v1.IgnitionConfig) *Config {
	status := &config.Status
	stored := storedConfig{
		Metadata: metadataOf(&config.ObjectMeta), Spec: config.Spec, Compiled: config.Compiled,
		Status: configStatus{
			Phase: status.Phase, ErrorMessage: status.ErrorMessage, Servable: status.Servable, Layers: status.Layers,
		},
	}
	c, _ := newConfig(Ref{Namespace: config.Namespace, Name: config.Name}, 0, &stored) // nil beside an error
	return c
}

// metadataOf copies the maps, which newHost may change.
func metadataOf(meta *metav1.ObjectMeta) metadata {
	return metadata{
		UID: string(meta.UID), Created: whole(&meta.CreationTimestamp), Generation: meta.Generation,
		Labels: maps.Clone(meta.Labels), Annotations: maps.Clone(meta.Annotations),
	}
}

// whole returns a time in whole seconds, as it is stored.
func whole(t *metav1.Time) timestamp {
	if t == nil {
		return timestamp{}
	}
	return timestamp(t.UTC().Truncate(time.Second))
}
