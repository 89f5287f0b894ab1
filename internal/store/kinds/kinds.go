// Package kinds lists the kinds of objects: the bucket of each, and the form in which the bucket holds its objects.
package kinds

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

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
	Namespaces      = "namespaces"
	Events          = "events"
)

// Transient are the buckets whose objects may be lost without an alarm.
var Transient = []string{"EVENTS"}

// All returns the kinds.
func All() []kvstore.Kind {
	configs := newKind[v1.IgnitionConfig, v1.IgnitionConfigList](IgnitionConfigs)
	configs.Note = snapshot.Outline
	events := newKind[v1.Event, v1.EventList](Events)
	events.Transient = true
	return []kvstore.Kind{
		configs,
		newKind[v1.BareMetalHost, v1.BareMetalHostList](BareMetalHosts),
		newKind[v1.ISCSICdrom, v1.ISCSICdromList](ISCSICdroms),
		newKind[v1.StreamRelease, v1.StreamReleaseList](StreamReleases),
		newKind[v1.ConfigMap, v1.ConfigMapList](ConfigMaps),
		newKind[v1.Namespace, v1.NamespaceList](Namespaces),
		events,
	}
}

// object is a pointer to a K.
type object[K any] interface {
	*K
	runtime.Object
}

func newKind[K, L any, PK object[K], PL object[L]](resource string) kvstore.Kind {
	return kvstore.Kind{
		Bucket: strings.ToUpper(resource), Resource: resource, Codec: codec{reflect.TypeFor[K]().Name()},
		New:     func() runtime.Object { return PK(new(K)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}
