package template

import (
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// HostRendering is the rendering of a template for one host.
type HostRendering struct {
	// Config is the template, and Host the BareMetalHost that receives it.
	Config, Host snapshot.Ref
	compile.Rendering
}

// Preview renders every template of an inventory for its hosts, and calls yield with each
// rendering, in the order of configs and hosts.
func Preview(inv *snapshot.Inventory, decider *decide.Decider, yield func(*HostRendering)) {
	view := inv.View()
	hosts := view.Hosts()
	slices.SortFunc(hosts, func(a, b *snapshot.Host) int { return a.Ref.Compare(b.Ref) })
	given := map[snapshot.Ref][]*snapshot.Host{}
	for _, h := range hosts {
		for _, config := range assigned(decider, view, h) {
			if config != nil {
				given[config.Ref] = append(given[config.Ref], h)
			}
		}
	}
	templates := view.Templates()
	slices.SortFunc(templates, func(a, b *snapshot.Config) int { return a.Ref.Compare(b.Ref) })
	for _, c := range templates {
		t, _ := c.ParseTemplate()
		if t == nil {
			continue // the check of the source reports the error
		}
		for _, h := range given[c.Ref] {
			made := t.Render(h.Facts())
			if c.Stack != nil {
				made.LayOver(c.Name, c.Stack.Layers, view.Layers(c.Namespace))
			}
			yield(&HostRendering{c.Ref, h.Ref, made})
		}
	}
}
