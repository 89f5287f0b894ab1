package api

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "glowplug/api/v1"
)

// runtimeKind is the name of a kind.
type runtimeKind = schema.GroupVersionKind

// hostStrategies are for the host and for its status. conflicts names the hosts
// that share an address with one; nil: none.
func hostStrategies(conflicts func(*v1.BareMetalHost) []string) (main, status *strategy[*v1.BareMetalHost]) {
	main = &strategy[*v1.BareMetalHost]{
		namespaced: true,
		create: func(_ context.Context, host *v1.BareMetalHost) {
			host.Generation = 1
			host.Status = v1.BareMetalHostStatus{State: v1.StateAvailable}
		},
		update: func(_ context.Context, host, old *v1.BareMetalHost) {
			host.Status = old.Status
			if !apiequality.Semantic.DeepEqual(host.Spec, old.Spec) {
				host.Generation = old.Generation + 1
			}
		},
		validate:       v1.ValidateBareMetalHost,
		validateUpdate: v1.ValidateBareMetalHostUpdate,
		warn:           conflicts,
		reset:          resetStatus,
	}
	status = &strategy[*v1.BareMetalHost]{
		namespaced: true,
		update: func(_ context.Context, host, old *v1.BareMetalHost) {
			// How far the machine is may be set, for a restore. Conditions are derived.
			keepMeta(&host.ObjectMeta, &old.ObjectMeta)
			host.Spec = old.Spec
			host.Status.Conditions = old.Status.Conditions
			// A status that comes from elsewhere, from a backup say, does not make
			// records of the boot log new that this one includes.
			host.Status.BootRecord = old.Status.BootRecord
		},
		validateUpdate: v1.ValidateBareMetalHostUpdate,
		reset:          resetSpec,
	}
	return main, status
}

// cdromStrategies are for the image and for its status. warnings says what one that
// is written would not do for; nil: nothing.
func cdromStrategies(warnings func(*v1.ISCSICdrom) []string) (main, status *strategy[*v1.ISCSICdrom]) {
	main = &strategy[*v1.ISCSICdrom]{
		namespaced: true,
		create: func(_ context.Context, cdrom *v1.ISCSICdrom) {
			cdrom.Generation = 1
			cdrom.Status = v1.ISCSICdromStatus{Phase: v1.PhasePending}
		},
		update: func(_ context.Context, cdrom, old *v1.ISCSICdrom) {
			cdrom.Status = old.Status
			if !cdrom.Spec.Stream.SameRelease(old.Spec.Stream) {
				cdrom.Status.Release = "" // what it was pinned to was another's
			}
			if !apiequality.Semantic.DeepEqual(cdrom.Spec, old.Spec) {
				cdrom.Generation = old.Generation + 1
			}
		},
		validate:       v1.ValidateISCSICdrom,
		validateUpdate: v1.ValidateISCSICdromUpdate,
		warn:           warnings,
		reset:          resetStatus,
	}
	status = &strategy[*v1.ISCSICdrom]{
		namespaced: true,
		update: func(_ context.Context, cdrom, old *v1.ISCSICdrom) {
			// The release that an image of a stream is pinned to may be set, for a restore.
			// The rest is what the server finds of the file.
			keepMeta(&cdrom.ObjectMeta, &old.ObjectMeta)
			cdrom.Spec = old.Spec
			release := cdrom.Status.Release
			cdrom.Status = old.Status
			if cdrom.Spec.Stream != nil {
				cdrom.Status.Release = release
			}
		},
		validateUpdate: v1.ValidateISCSICdromUpdate,
		reset:          resetSpec,
	}
	return main, status
}

func namespaceStrategy() *strategy[*v1.Namespace] {
	return &strategy[*v1.Namespace]{
		create: func(_ context.Context, namespace *v1.Namespace) {
			namespace.Status = v1.NamespaceStatus{Phase: v1.NamespaceActive}
		},
		update: func(_ context.Context, namespace, old *v1.Namespace) {
			namespace.Status = old.Status
		},
		validate:       v1.ValidateNamespace,
		validateUpdate: v1.ValidateNamespaceUpdate,
		reset:          resetStatus,
	}
}

func eventStrategy() *strategy[*v1.Event] {
	return &strategy[*v1.Event]{
		namespaced:     true,
		validate:       v1.ValidateEvent,
		validateUpdate: v1.ValidateEventUpdate,
	}
}
