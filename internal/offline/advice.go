package offline

import (
	"fmt"
	"slices"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Advice is advice about an object.
type Advice struct {
	Kind string
	Ref  model.Ref
	// Lacks is the kind of an object that is missing; "": the advice is about those that are there.
	Lacks string
	explain.Advice
}

// Advise calls yield for each advice about the hosts and configs. Where there are no images, or no hosts, it says
// nothing of them: they are elsewhere.
func (o *Objects) Advise(yield func(Advice)) {
	view := o.inventory.View()
	hosts, images := view.Hosts(), view.Images("")
	a := adviser{view, len(images) > 0, decide.New(decide.Options{Inventory: o.inventory}), yield}
	used := map[model.Ref]bool{}
	for _, h := range hosts {
		a.host(h)
		for _, typ := range []string{decide.Ignition, decide.Kickstart} {
			if config := a.decider.Assigned(a.view, h, typ); config != nil {
				used[config.Ref] = true
			}
		}
	}
	for _, image := range images {
		used[image.Config] = true
	}
	anyAddress := slices.ContainsFunc(hosts, hasNoAddress)
	for _, rule := range a.view.Rules() {
		mayMatch := anyAddress && len(rule.Selector.Prefixes) > 0
		a.config(rule, len(hosts) > 0 && !used[rule.Ref] && !mayMatch && !view.IsLayer(rule.Ref))
	}
}

type adviser struct {
	view      model.View
	hasImages bool
	decider   *decide.Decider
	yield     func(Advice)
}

func (a *adviser) advise(kind string, ref model.Ref, advice ...explain.Advice) {
	for _, one := range advice {
		a.yield(Advice{Kind: kind, Ref: ref, Advice: one})
	}
}

// fieldOf returns the path of the field in which a host has the address of a conflict.
func fieldOf(h *model.Host, c *model.Conflict) string {
	field, shared := "spec.bootMACAddress", c.MAC.String()
	switch {
	case c.UUID != "":
		return "spec.systemUUID"
	case c.OtherMAC != "":
		return "spec.nics"
	}
	if c.IP.IsValid() {
		field, shared = "spec.ip", c.IP.String()
	}
	for _, nic := range h.Facts().NICs {
		if nic.MAC == shared || nic.IP == shared {
			return "spec.nics"
		}
	}
	return field
}

func (a *adviser) host(h *model.Host) {
	const kind = "BareMetalHost"
	for _, conflict := range a.view.Conflicts(h) {
		a.advise(kind, h.Ref, explain.Advice{Field: fieldOf(h, &conflict), Message: conflict.String()})
	}
	a.advise(kind, h.Ref, explain.AdviseHost(a.decider, h)...)
	if a.hasImages {
		for _, one := range explain.AdviseImage(a.decider, a.view, h, "is not among these files") {
			a.yield(Advice{kind, h.Ref, "ISCSICdrom", one})
		}
	}
	if served, other := explain.Tie(a.decider, a.view, h); served != nil && a.view.Tied(served) != other {
		a.advise(kind, h.Ref, explain.Advice{Field: "metadata.name", Message: fmt.Sprintf("IgnitionConfigs %s and %s match"+
			" this host equally: it receives the older one, or of the same second the first by name", served.Ref, other.Ref)})
	}
}

// hasNoAddress reports whether the machine of a host can have any address, so that every config
// with matchIPs can be for it.
func hasNoAddress(h *model.Host) bool {
	return len(h.IPs) == 0 && len(h.MACs)+len(h.BootSources) > 0
}

// config advises about a config. isUnused is true where there are hosts, and none can receive it.
func (a *adviser) config(rule *match.Rule, isUnused bool) {
	const kind = "IgnitionConfig"
	config := rule.Config.(*model.Config)
	if other := a.view.Tied(config); other != nil && other.Ref.Compare(config.Ref) < 0 { // all are of the same age
		a.advise(kind, config.Ref, explain.AdviseConfig(a.view, config)...)
	}
	if isUnused && !config.Template && !rule.Selector.IsEmpty() && !rule.Selector.Default {
		a.yield(Advice{kind, config.Ref, "BareMetalHost", explain.Advice{
			Field: "spec.selector", Message: "no host in these files receives this config",
		}})
	}
}
