package offline

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

// configs is a store of configs in memory, and their controller over it.
type configs struct {
	controller *config.Controller
	snapshot   *snapshot.Inventory
	stored     map[string]*storedConfig // by the key in the store
	layered    []*storedConfig          // those with layers, in their order
	changed    bool
}

// storedConfig is a config as it is stored, and where it stands.
type storedConfig struct {
	ref   model.Ref
	item  kvstore.Item
	place string
}

func newConfigs(inv *snapshot.Inventory) *configs {
	o := &configs{snapshot: inv, stored: map[string]*storedConfig{}}
	o.controller = config.New(config.Options{
		Store: o, Snapshot: inv, AdmissionLimit: time.Minute, Misread: func(string) bool { return true },
	})
	return o
}

// add compiles a config; the error is why that failed.
func (o *configs) add(config *v1.IgnitionConfig, revision uint64, place string) error {
	ref := model.Ref{Namespace: config.Namespace, Name: config.Name}
	one := &storedConfig{ref: ref, place: place, item: kvstore.Item{Key: ref.String(), Revision: revision}}
	_, _ = o.controller.Admit(context.Background(), config, nil, false) // the status has the errors
	var err error
	if one.item.Value, err = configCodec.Encode(config); err != nil {
		return err
	}
	o.stored[keyOf(ref)] = one
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
func (o *configs) reconcile() (problems []error) {
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

// Config returns a config with its status and compilation, an empty one where it is not there. The status of a
// template is that of its layers. missing is a layer that is not among the objects, or is merged over one that is
// not; "": there is none.
func (o *Objects) Config(ref model.Ref) (config *v1.IgnitionConfig, missing string) {
	config = &v1.IgnitionConfig{}
	view := o.inventory.View()
	if o.configs.Get(context.Background(), keyOf(ref), storage.GetOptions{}, config) != nil {
		return &v1.IgnitionConfig{}, ""
	}
	if c := view.Config(ref); c != nil && c.Template { // it is merged for each host
		task := o.renderer.Task(c)
		config.Status.ErrorMessage = task.Failure
		config.Status.Warnings = append(config.Status.Warnings, task.Warnings...)
	}
	return config, missingLayer(view, ref, map[model.Ref]bool{})
}

// missingLayer returns the first layer of a config that is missing, or that has a missing layer below it; "": none
// is. seen are the configs on the way down: layers may form a circle.
func missingLayer(view model.View, ref model.Ref, seen map[model.Ref]bool) string {
	seen[ref] = true
	for _, name := range view.Config(ref).LayerNames() {
		below := model.Ref{Namespace: ref.Namespace, Name: name}
		if view.Config(below) == nil || !seen[below] && missingLayer(view, below, seen) != "" {
			return name
		}
	}
	return ""
}

func keyOf(ref model.Ref) string { return "/" + kinds.IgnitionConfigs + "/" + ref.String() }

// Get implements config.Store.
func (o *configs) Get(_ context.Context, key string, _ storage.GetOptions, into runtime.Object) error {
	one := o.stored[key]
	if one == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	return configCodec.Decode(one.item.Value, into)
}

// GuaranteedUpdate implements config.Store.
func (o *configs) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, _ bool,
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
