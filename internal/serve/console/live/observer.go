package live

import (
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// Observer returns an observer of a bucket whose objects are not in the inventory.
func (h *Hub) Observer(resource string) kvstore.Observer { return observer{h, resource} }

type observer struct {
	hub      *Hub
	resource string
}

// Load implements kvstore.Observer.
func (o observer) Load([]kvstore.Item) { o.hub.reset() }

// Put implements kvstore.Observer.
func (o observer) Put(item kvstore.Item) { o.mark(item.Key) }

// Delete implements kvstore.Observer.
func (o observer) Delete(key string, _ uint64) { o.mark(key) }

// mark notes the change of an object. The key of one of the whole cluster has no slash, and is read as a namespace.
func (o observer) mark(key string) {
	ref := model.Stored{Key: key}.Ref()
	if ref.Name == "" {
		ref = model.Ref{Name: ref.Namespace}
	}
	o.hub.Mark(o.resource, ref)
}
