package api

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/snapshot"
)

// HostStatus knows what hosts receive. Admit stores the conditions of a host whose spec is
// new, and Complete sets all of them in a host that a client reads. ConfigOf returns the
// config that a host receives, HostsOf the number of hosts that receive a config.
type HostStatus interface {
	Admit(host *v1.BareMetalHost)
	Complete(host *v1.BareMetalHost)
	ConfigOf(host *v1.BareMetalHost) string
	HostsOf(config model.Ref) int
}

// kind describes the endpoints of one kind.
type kind[T object] struct {
	*kinds.Kind
	// isName returns the reasons why an object cannot have a name; nil: it is a DNS subdomain.
	isName apivalidation.ValidateNameFunc
	table  rest.TableConvertor
	// read completes an object that a client reads; nil: it is read as it is stored.
	read func(obj T)
	// secrecy is what is confidential in an object; nil: nothing.
	secrecy *secrecy
	// fields select objects; nil: only metadata.name and metadata.namespace do.
	fields selectable[T]
	strategy[T]
	// keepInStatus sets the fields of obj that the status endpoint does not accept from a
	// client to those of the stored object; nil: the kind has no status endpoint.
	keepInStatus func(obj, old T)
	// statusWritten is called after a client has written to the status endpoint; nil: nobody has to know.
	statusWritten func(ctx context.Context, a *attempt) error
	// validateStatus checks what a client writes to the status endpoint; nil: nothing.
	validateStatus func(obj, old T) field.ErrorList
}

// mainStrategy is the strategy of the objects themselves.
func (k *kind[T]) mainStrategy() *strategy[T] {
	s := k.strategy
	s.ObjectTyper, s.NameGenerator, s.namespaced = scheme, names.SimpleNameGenerator, k.Namespaced
	if k.Kind.Validate != nil {
		s.validate = func(obj T) field.ErrorList { return k.Kind.Validate(obj) }
	}
	if s.keep != nil {
		s.reset = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	return &s
}

// statusStrategy is the strategy of the subresource status.
func (k *kind[T]) statusStrategy() *strategy[T] {
	return &strategy[T]{
		ObjectTyper: scheme, namespaced: k.Namespaced, keep: k.keepInStatus, keepMeta: true,
		immutable: k.validateStatus,
		reset:     fieldpath.NewSet(fieldpath.MakePathOrDie("spec")),
	}
}

func configKind(opts *Options) *kind[*v1.IgnitionConfig] {
	return &kind[*v1.IgnitionConfig]{
		Kind:  kinds.Of(kinds.IgnitionConfigs),
		table: configTable(opts.HostStatus), fields: configFields, secrecy: configSecrecy(opts.rights),
		strategy: strategy[*v1.IgnitionConfig]{
			initial: &v1.IgnitionConfig{},
			keep: func(config, old *v1.IgnitionConfig) {
				config.Status, config.Compiled = old.Status, old.Compiled
			},
			spec:     func(config *v1.IgnitionConfig) any { return &config.Spec },
			complete: admitConfig(opts),
		},
		// The server derives all of the status from the source.
		keepInStatus: func(config, old *v1.IgnitionConfig) {
			config.Spec, config.Status, config.Compiled = old.Spec, old.Status, old.Compiled
		},
	}
}

// keepHost keeps the status of a host. A new value of the annotation that arms it is a part of the
// status with its time: the provisioning window of the host begins then.
func keepHost(host, old *v1.BareMetalHost) {
	host.Status = old.Status
	rearm := host.Annotations[v1.AnnotationRearm]
	isNew := rearm != "" && rearm != old.Annotations[v1.AnnotationRearm] && rearm != old.Status.Rearmed
	if isNew && old.UID != "" {
		now := metav1.Now().Rfc3339Copy()
		// Each arming has a time of its own, in whole seconds.
		if before := cmp.Or(old.Status.Armed, &old.CreationTimestamp); !before.Before(&now) {
			now = metav1.NewTime(before.Add(time.Second))
		}
		host.Status.Armed = &now
	}
}

func hostKind(opts *Options) *kind[*v1.BareMetalHost] {
	k := &kind[*v1.BareMetalHost]{
		Kind:  kinds.Of(kinds.BareMetalHosts),
		table: hostTable(opts.HostStatus), fields: hostFields, secrecy: hostSecrecy(opts.rights),
		strategy: strategy[*v1.BareMetalHost]{
			initial: &v1.BareMetalHost{Status: v1.BareMetalHostStatus{State: v1.StateAvailable}},
			keep:    keepHost,
			spec:    func(host *v1.BareMetalHost) any { return &host.Spec },
			warn:    opts.warnings,
		},
		// The status of a host follows its boot: what an administrator changes is a change of the boot.
		statusWritten: func(ctx context.Context, a *attempt) error {
			if opts.SetHostState == nil {
				return nil
			}
			if err := opts.SetHostState(ctx, a.object().(*v1.BareMetalHost), a.old.(*v1.BareMetalHost)); err != nil {
				return apierrors.NewServiceUnavailable("the state of the machine is not stored yet; write it again: " + err.Error())
			}
			return nil
		},
		// A restore may set the state of a machine. Conditions are derived.
		keepInStatus: func(host, old *v1.BareMetalHost) {
			host.Spec = old.Spec
			host.Status.Conditions = old.Status.Conditions
			// Without a state a provisioned machine would be installed again.
			host.Status.State = cmp.Or(host.Status.State, old.Status.State)
		},
		validateStatus: func(host, old *v1.BareMetalHost) field.ErrorList {
			path := field.NewPath("status")
			errs := validateHardware(host.Status.Hardware, path.Child("hardware"))
			if host.Status.State != old.Status.State {
				errs = append(errs, v1.ValidateState(host.Status.State, path.Child("state"))...)
			}
			return errs
		},
	}
	if status := opts.HostStatus; status != nil {
		k.read = status.Complete
		k.complete = func(_ context.Context, host, _ *v1.BareMetalHost) field.ErrorList {
			status.Admit(host)
			return nil
		}
	}
	return k
}

// warnings returns the warnings for an object that is written, beside those of its status.
func (o *Options) warnings(c change) []string { return o.warningsOn(o.Inventory.View(), c) }

// warningsOn is warnings where view has the other objects.
func (o *Options) warningsOn(view model.View, c change) []string {
	switch now := c.now.(type) {
	case *v1.BareMetalHost:
		if o.HostWarnings != nil {
			old, _ := c.old.(*v1.BareMetalHost)
			return o.HostWarnings(view, now, old)
		}
	case *v1.ISCSICdrom:
		if o.ImageWarnings != nil {
			return o.ImageWarnings(view, now)
		}
	case *v1.IgnitionConfig:
		if o.ConfigWarnings != nil {
			return o.ConfigWarnings(view, now)
		}
	}
	return nil
}

// validateHardware checks what an inventory, or a machine, says of the hardware.
func validateHardware(hardware *v1.HardwareDetails, path *field.Path) field.ErrorList {
	if hardware == nil {
		return nil
	}
	if errs := v1.ValidateHardware(hardware, path); len(errs) > 0 {
		return errs
	}
	if _, err := disk.OfHardware(hardware); err != nil {
		return field.ErrorList{field.Invalid(path.Child("storage"), field.OmitValueType{}, err.Error())}
	}
	return nil
}

func cdromKind(opts *Options) *kind[*v1.ISCSICdrom] {
	return &kind[*v1.ISCSICdrom]{
		Kind: kinds.Of(kinds.ISCSICdroms), table: cdromTable,
		fields: cdromFields, secrecy: cdromSecrecy(opts.rights),
		strategy: strategy[*v1.ISCSICdrom]{
			initial: &v1.ISCSICdrom{Status: v1.ISCSICdromStatus{Phase: v1.PhasePending}},
			keep: func(cdrom, old *v1.ISCSICdrom) {
				cdrom.Status = old.Status
				if !cdrom.Spec.Stream.SameRelease(old.Spec.Stream) {
					cdrom.Status.Release = "" // the pinned release is that of the former stream
				}
			},
			spec: func(cdrom *v1.ISCSICdrom) any { return &cdrom.Spec },
			complete: func(_ context.Context, cdrom, _ *v1.ISCSICdrom) field.ErrorList {
				// Until the server has looked at the image of the new spec.
				v1.SetReady(&cdrom.Status.Conditions, v1.PhasePending, "", false, cdrom.Generation, time.Now())
				return nil
			},
			warn: opts.warnings,
		},
		// A restore may set the release to which an image of a stream is pinned. The server
		// derives the rest from the file.
		keepInStatus: func(cdrom, old *v1.ISCSICdrom) {
			release := cdrom.Status.Release
			cdrom.Spec, cdrom.Status = old.Spec, old.Status
			if cdrom.Spec.Stream != nil {
				cdrom.Status.Release = release
			}
		},
	}
}

func releaseKind() *kind[*v1.StreamRelease] {
	return &kind[*v1.StreamRelease]{
		Kind: kinds.Of(kinds.StreamReleases), table: streamTable,
		strategy: strategy[*v1.StreamRelease]{
			initial:   &v1.StreamRelease{},
			keep:      func(release, old *v1.StreamRelease) { release.Status = old.Status },
			spec:      func(release *v1.StreamRelease) any { return &release.Spec },
			immutable: v1.ValidateStreamReleaseUpdate,
			complete: func(_ context.Context, release, _ *v1.StreamRelease) field.ErrorList {
				describeDocument(release)
				return nil
			},
		},
		// Whether the release is current depends on other releases: the server writes it through
		// the API. The rest is derived from the document.
		keepInStatus: func(release, old *v1.StreamRelease) {
			current := release.Status.Current
			release.Spec, release.Status = old.Spec, old.Status
			release.Status.Current = current
		},
	}
}

func configMapKind() *kind[*v1.ConfigMap] {
	k := plainKind(kinds.ConfigMaps, configMapTable)
	k.immutable = v1.ValidateConfigMapUpdate
	return k
}

func secretKind(r rights) *kind[*v1.Secret] {
	return &kind[*v1.Secret]{
		Kind: kinds.Of(kinds.Secrets), table: secretTable, fields: secretFields,
		secrecy: secretSecrecy(r),
		strategy: strategy[*v1.Secret]{
			immutable: v1.ValidateSecretUpdate,
		},
	}
}

func namespaceKind(inventory *snapshot.Inventory) *kind[*v1.Namespace] {
	return &kind[*v1.Namespace]{
		Kind: kinds.Of(kinds.Namespaces), table: namespaceTable(inventory),
		fields: namespaceFields,
		strategy: strategy[*v1.Namespace]{
			initial: newNamespace(),
			keep: func(namespace, old *v1.Namespace) {
				old = old.DeepCopy()
				namespace.Spec, namespace.Status = old.Spec, old.Status
			},
		},
	}
}

// plainKind describes objects as they are stored.
func plainKind[T object](resource string, table *table[T]) *kind[T] {
	return &kind[T]{Kind: kinds.Of(resource), table: table}
}

func eventKind() *kind[*v1.Event] {
	k := plainKind(kinds.Events, eventTable)
	k.fields = eventFields
	return k
}

// bootKind describes boots. Only the server writes them.
func bootKind() *kind[*v1.Boot] {
	k := plainKind(kinds.Boots, bootTable)
	k.fields, k.isName = bootFields, rbac.ValidateName // the names of those of unknown machines have an underscore
	return k
}
