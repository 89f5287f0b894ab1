package live

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

// Cell is what the fleet shows of a host.
type Cell struct {
	model.Ref
	// State is status.state as it is now.
	State string
	// Unmet is true where a condition of the host is not met, or another host has one of its addresses.
	Unmet bool
	// Seen is the time of the last step; zero: never.
	Seen time.Time
	// Labels are those of the host; they must not be changed.
	Labels map[string]string
	// Image is the image that the host boots, and Unreadable true where that system cannot read the config.
	Image      model.Ref
	Unreadable bool
}

// Fails reports whether the host needs attention.
func (c *Cell) Fails() bool { return c.Unmet || c.State == v1.StateError }

// Code is the cell in a frame: the letter of its state, and a mark where a condition is not met.
func (c *Cell) Code() string {
	if c.Unmet {
		return states[c.State] + "!"
	}
	return states[c.State]
}

// cellOf returns the cell of a host.
func (h *Hub) cellOf(view model.View, host *model.Host) Cell {
	progress := h.opts.Progress(host)
	unmet := host.Unmet&^model.DataPreserved != 0 || view.Shares(host)
	return Cell{
		Ref: host.Ref, State: cmp.Or(progress.State, v1.StateAvailable), Unmet: unmet, Seen: progress.Seen,
		Labels: host.Labels, Image: host.Image, Unreadable: host.Unmet&model.ConfigReadable != 0,
	}
}

// Cells returns the cells of the namespaces that may be shown, by their names.
func (h *Hub) Cells(may func(namespace string) bool) []Cell {
	view := h.opts.Inventory.View()
	allowed := map[string]bool{}
	cells := make([]Cell, 0, view.HostCount())
	for host := range view.AllHosts() {
		isAllowed, isKnown := allowed[host.Namespace]
		if !isKnown {
			isAllowed = may(host.Namespace)
			allowed[host.Namespace] = isAllowed
		}
		if isAllowed {
			cells = append(cells, h.cellOf(view, host))
		}
	}
	slices.SortFunc(cells, func(a, b Cell) int { return a.Compare(b.Ref) })
	return cells
}

// cells encodes the cells of hosts of a namespace; "" is a host that is gone. In a storm those that have not changed
// are left out, and nil is none: a boot has more steps than states.
func (h *Hub) cells(view model.View, namespace string, names map[string]struct{}, isStorm bool) []byte {
	text := make([]byte, 1, 24*len(names)+1)
	text[0] = '{'
	for name := range names {
		ref, code := model.Ref{Namespace: namespace, Name: name}, ""
		if host := view.Host(ref); host != nil {
			cell := h.cellOf(view, host)
			code = cell.Code()
		}
		if was, isSent := h.sent[ref]; isStorm && isSent && was == code {
			continue
		}
		if h.sent[ref] = code; code == "" {
			delete(h.sent, ref)
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		// The name of an object has no character that JSON writes in another way.
		text = strconv.AppendQuote(append(strconv.AppendQuote(text, name), ':'), code)
	}
	if isStorm && len(text) == 1 {
		return nil
	}
	return append(text, '}')
}

// namesOf encodes the names of objects that have changed; null means any.
func namesOf(names map[string]struct{}) []byte {
	if names == nil {
		return []byte("null")
	}
	return encoded(slices.Sorted(maps.Keys(names)))
}

// encoded returns strings as JSON, which cannot fail.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Namespaces returns the names of all namespaces.
func (h *Hub) Namespaces() (names []string) {
	for n := range model.Namespaces.All(h.opts.Inventory.View()) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// Names returns the names of all configs and of all images, as namespace/name.
func (h *Hub) Names() (configs, images []string) {
	view := h.opts.Inventory.View()
	for c := range model.Configs.All(view) {
		configs = append(configs, c.Ref.String())
	}
	for i := range model.Images.All(view) {
		images = append(images, i.Ref.String())
	}
	slices.Sort(configs)
	slices.Sort(images)
	return configs, images
}
