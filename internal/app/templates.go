package app

import (
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// HostRendering is what a template comes to for one host.
type HostRendering struct {
	// Config is the template, Host the BareMetalHost that is given it.
	Config, Host snapshot.Ref
	compile.Rendering
}

// RenderManifests renders every template in manifests for the hosts in them that
// would be given it, in the order of configs and hosts, and gives one after the
// other to yield. What is no object of this server is left out.
func RenderManifests(yield func(*HostRendering), paths ...string) error {
	inv, _, err := index(paths...)
	if err != nil {
		return err
	}
	decider := decide.New(decide.Options{Inventory: inv})
	view := inv.View()
	defer view.End()
	hosts := view.Hosts()
	slices.SortFunc(hosts, func(a, b *snapshot.Host) int { return a.Ref.Compare(b.Ref) })
	given := map[snapshot.Ref][]*snapshot.Host{}
	for _, h := range hosts {
		for _, typ := range [...]string{decide.Ignition, decide.Kickstart} {
			if c := decider.Assigned(view, h, typ); c != nil && c.Template {
				given[c.Ref] = append(given[c.Ref], h)
			}
		}
	}
	templates := view.Templates()
	slices.SortFunc(templates, func(a, b *snapshot.Config) int { return a.Ref.Compare(b.Ref) })
	for _, c := range templates {
		t, _ := c.ParseTemplate()
		if t == nil {
			continue // its error is that of its source
		}
		for _, h := range given[c.Ref] {
			made := t.Render(h.Facts())
			if c.Stack != nil {
				made.LayOver(c.Name, c.Stack.Layers, view.Layers(c.Namespace))
			}
			yield(&HostRendering{c.Ref, h.Ref, made})
		}
	}
	return nil
}

// ManifestHosts gives the hosts in manifests, by namespace and name. Problems are
// what a server would have refused.
func ManifestHosts(paths ...string) (hosts []*snapshot.Host, problems []error, err error) {
	inv, problems, err := index(paths...)
	if err != nil {
		return nil, nil, err
	}
	view := inv.View()
	defer view.End()
	hosts = view.Hosts()
	slices.SortFunc(hosts, func(a, b *snapshot.Host) int { return a.Ref.Compare(b.Ref) })
	return hosts, problems, nil
}
