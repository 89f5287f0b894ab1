package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// Resource names, which are also the keys of Options.Stores.
const (
	IgnitionConfigs = "ignitionconfigs"
	BareMetalHosts  = "baremetalhosts"
	ISCSICdroms     = "iscsicdroms"
	StreamReleases  = "streamreleases"
	ConfigMaps      = "configmaps"
	Namespaces      = "namespaces"
	Events          = "events"
)

// Transient are the buckets that hold nothing lasting.
var Transient = []string{"EVENTS"}

// Kinds describes the buckets that Options.Stores are made of.
func Kinds() []kvstore.Kind {
	return []kvstore.Kind{
		{
			Bucket: "IGNITIONCONFIGS", Resource: IgnitionConfigs, Codec: configCodec{}, Note: snapshot.Outline,
			New:     func() runtime.Object { return &v1.IgnitionConfig{} },
			NewList: func() runtime.Object { return &v1.IgnitionConfigList{} },
		},
		{
			Bucket: "BAREMETALHOSTS", Resource: BareMetalHosts, Codec: plainCodec{"BareMetalHost"},
			New:     func() runtime.Object { return &v1.BareMetalHost{} },
			NewList: func() runtime.Object { return &v1.BareMetalHostList{} },
		},
		{
			Bucket: "ISCSICDROMS", Resource: ISCSICdroms, Codec: plainCodec{"ISCSICdrom"},
			New:     func() runtime.Object { return &v1.ISCSICdrom{} },
			NewList: func() runtime.Object { return &v1.ISCSICdromList{} },
		},
		{
			Bucket: "STREAMRELEASES", Resource: StreamReleases, Codec: plainCodec{"StreamRelease"},
			New:     func() runtime.Object { return &v1.StreamRelease{} },
			NewList: func() runtime.Object { return &v1.StreamReleaseList{} },
		},
		{
			Bucket: "CONFIGMAPS", Resource: ConfigMaps, Codec: plainCodec{"ConfigMap"},
			New:     func() runtime.Object { return &v1.ConfigMap{} },
			NewList: func() runtime.Object { return &v1.ConfigMapList{} },
		},
		{
			Bucket: "NAMESPACES", Resource: Namespaces, Codec: plainCodec{"Namespace"},
			New:     func() runtime.Object { return &v1.Namespace{} },
			NewList: func() runtime.Object { return &v1.NamespaceList{} },
		},
		{
			Bucket: "EVENTS", Resource: Events, Codec: plainCodec{"Event"}, Transient: true,
			New:     func() runtime.Object { return &v1.Event{} },
			NewList: func() runtime.Object { return &v1.EventList{} },
		},
	}
}

// plainCodec stores the object's JSON, with the kind that it names.
type plainCodec struct{ kind string }

func (c plainCodec) Encode(obj runtime.Object) ([]byte, error) {
	return marshal(c.kind, obj, obj)
}

func (plainCodec) Decode(value []byte, into runtime.Object) error {
	reset(into)
	if err := json.Unmarshal(value, into); err != nil {
		return err
	}
	clearKind(into)
	return nil
}

// storedConfig is an IgnitionConfig in its bucket: one more top-level member
// holds the compilation, which no answer of the API shows.
type storedConfig struct {
	*v1.IgnitionConfig
	Compiled *v1.Compiled `json:"compiled,omitempty"`
}

// configCodec stores an IgnitionConfig as a storedConfig.
type configCodec struct{}

func (configCodec) Encode(obj runtime.Object) ([]byte, error) {
	config, ok := obj.(*v1.IgnitionConfig)
	if !ok {
		return nil, fmt.Errorf("%T is no IgnitionConfig", obj)
	}
	return marshal("IgnitionConfig", config, &storedConfig{IgnitionConfig: config, Compiled: config.Compiled})
}

func (configCodec) Decode(value []byte, into runtime.Object) error {
	config, ok := into.(*v1.IgnitionConfig)
	if !ok {
		return fmt.Errorf("%T is no IgnitionConfig", into)
	}
	*config = v1.IgnitionConfig{}
	stored := storedConfig{IgnitionConfig: config}
	if err := json.Unmarshal(value, &stored); err != nil {
		return err
	}
	config.Compiled = stored.Compiled
	clearKind(config)
	return nil
}

// marshal writes value, which shows obj's type metadata, with apiVersion and kind
// set; obj is left as it was.
func marshal(kind string, obj runtime.Object, value any) ([]byte, error) {
	was := obj.GetObjectKind().GroupVersionKind()
	obj.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
	defer obj.GetObjectKind().SetGroupVersionKind(was)
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// clearKind leaves the type metadata out of objects in memory, as the library
// does: encoders write it.
func clearKind(obj runtime.Object) {
	if t, ok := obj.GetObjectKind().(*metav1.TypeMeta); ok {
		*t = metav1.TypeMeta{}
	}
}

// reset empties an object that is decoded into for the second time.
func reset(obj runtime.Object) {
	reflect.ValueOf(obj).Elem().SetZero()
}
