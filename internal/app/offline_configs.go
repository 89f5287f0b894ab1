package app

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/config"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/snapshot"
)

// configCodec encodes configs as the store does.
var configCodec = objects.Stored(kinds.Of(kinds.IgnitionConfigs)).Codec

// offlineConfigs is a store of configs in memory, and their controller over it.
type offlineConfigs struct {
	controller *config.Controller
	snapshot   *snapshot.Inventory
	stored     map[string]*offlineConfig // by the key in the store
	layered    []*offlineConfig          // those with layers, in their order
	changed    bool
}

// offlineConfig is a config as it is stored, and its position in the manifests.
type offlineConfig struct {
	ref   model.Ref
	item  kvstore.Item
	place string
}

func newOfflineConfigs(inv *snapshot.Inventory) *offlineConfigs {
	o := &offlineConfigs{snapshot: inv, stored: map[string]*offlineConfig{}}
	o.controller = config.New(config.Options{
		Store: o, Snapshot: inv, AdmissionLimit: time.Minute, Misread: func(string) bool { return true },
	})
	return o
}

// add compiles a config; the error is why that failed.
func (o *offlineConfigs) add(config *v1.IgnitionConfig, index int, place string) error {
	ref := model.Ref{Namespace: config.Namespace, Name: config.Name}
	one := &offlineConfig{ref: ref, place: place, item: kvstore.Item{Key: ref.String(), Revision: uint64(index + 1)}}
	_, _ = o.controller.Admit(context.Background(), config, nil, false) // the status has the errors
	var err error
	if one.item.Value, err = configCodec.Encode(config); err != nil {
		return err
	}
	o.stored["/"+kinds.IgnitionConfigs+"/"+one.item.Key] = one
	switch {
	case config.Compiled == nil:
		return fmt.Errorf("spec.config: %s", config.Status.ErrorMessage)
	case len(config.Spec.Layers) > 0:
		o.layered = append(o.layered, one)
	}
	return nil
}

// reconcile merges configs over their layers, and again over the results of that,
// until nothing changes.
func (o *offlineConfigs) reconcile() (problems []error) {
	ctx := context.Background()
	o.changed = true
	for round := 0; o.changed && round < compile.MaxDepth+2; round++ {
		o.changed = false
		for _, one := range o.layered {
			if _, err := o.controller.Reconcile(ctx, config.Key{Ref: one.ref, Task: config.Advance}); err != nil {
				return append(problems, fmt.Errorf("%s: %w", one.place, err))
			}
		}
	}
	view := o.snapshot.View()
	for _, one := range o.layered {
		if c := view.Config(one.ref); c != nil && c.ErrorMessage != "" {
			problems = append(problems, fmt.Errorf("%s: %s", one.place, c.ErrorMessage))
		}
	}
	return problems
}

// Get implements config.Store.
func (o *offlineConfigs) Get(_ context.Context, key string, _ storage.GetOptions, into runtime.Object) error {
	one := o.stored[key]
	if one == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	return configCodec.Decode(one.item.Value, into)
}

// GuaranteedUpdate implements config.Store.
func (o *offlineConfigs) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, _ bool,
	_ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	if err := o.Get(ctx, key, storage.GetOptions{}, into); err != nil {
		return err
	}
	changed, _, err := update(into, storage.ResponseMeta{})
	if err != nil {
		return err
	}
	value, err := configCodec.Encode(changed)
	if one := o.stored[key]; err == nil && !bytes.Equal(value, one.item.Value) {
		one.item.Value, o.changed = value, true
		o.snapshot.Configs().Put(one.item)
	}
	return err
}
