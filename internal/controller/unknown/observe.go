package unknown

import (
	"encoding/json"
	"net/netip"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/kvstore"
)

// Load, Put and Delete observe the bucket.
func (r *Recorder) Load(items []kvstore.Item) {
	objects := make([]*v1.UnknownMachine, 0, len(items))
	for _, item := range items {
		if object := read(item); object != nil {
			objects = append(objects, object)
		}
	}
	slices.SortFunc(objects, func(a, b *v1.UnknownMachine) int {
		return a.Status.LastSeen.Compare(b.Status.LastSeen.Time)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.gone)
	for _, m := range r.byName {
		if m.stored = false; m.unwritten == 0 {
			r.remove(m)
		}
	}
	for _, object := range objects {
		r.put(object)
	}
}

// Put adds a machine of the store.
func (r *Recorder) Put(item kvstore.Item) {
	object := read(item)
	if object == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone[object.Name] {
		r.put(object)
	}
}

// put adds a machine of the store. Requests that the store does not have yet are kept.
func (r *Recorder) put(object *v1.UnknownMachine) {
	m := r.byName[object.Name]
	if m == nil {
		m = &machine{name: object.Name}
		m.mac, _ = netaddr.ParseMAC(object.Status.MAC)
		var addr netip.Addr
		if len(object.Status.Addresses) > 0 {
			addr, _ = netaddr.ParseIP(object.Status.Addresses[0])
		}
		r.touch(m, addr, object.Status.NeighborMAC != "")
	}
	m.stored = true
	merge(&m.status, &object.Status)
	if out, _ := r.surplus(m); out != nil {
		r.drop(out)
	}
}

// Delete removes a machine that is no longer in the store, with its unwritten requests.
func (r *Recorder) Delete(key string, _ uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, key)
	if m := r.byName[key]; m != nil {
		m.stored = false
		r.remove(m)
		r.opts.Dropped(key)
	}
}

// read decodes a stored machine; nil: it cannot be read.
func read(item kvstore.Item) *v1.UnknownMachine {
	object := &v1.UnknownMachine{}
	if json.Unmarshal(item.Value, object) != nil || object.Name != item.Key {
		return nil
	}
	return object
}
