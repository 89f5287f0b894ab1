package objects

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
)

// Bucket returns the name of the bucket of a kind.
func Bucket(k *kinds.Kind) string { return strings.ToUpper(k.Resource) }

// Stored returns how the bucket of a kind keeps its objects.
func Stored(k *kinds.Kind) kvstore.Kind {
	return kvstore.Kind{
		Bucket: Bucket(k), Resource: k.Resource, Codec: codec{k.WithKind(k.Name)}, New: k.New, NewList: k.NewList,
		Transient: k.Transient, Restored: k.Restored,
		Batched: k.Resource == kinds.Boots, Successive: k.Resource == kinds.Boots,
		Upgrade: func(value []byte) ([]byte, error) { return upgraded(k.Name, value) },
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
	return marked(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// Decode reads a stored object. The object in memory has no apiVersion and kind: the
// encoders of the API write them.
func (codec) Decode(value []byte, into runtime.Object) error {
	reflect.ValueOf(into).Elem().SetZero() // it may have been decoded into before
	defer func() { into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) }()
	config, ok := into.(*v1.IgnitionConfig)
	if !ok {
		return jsonv1.Unmarshal(value, into)
	}
	stored := storedConfig{IgnitionConfig: config}
	err := jsonv1.Unmarshal(value, &stored)
	config.Compiled = stored.Compiled
	return err
}
