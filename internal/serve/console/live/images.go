package live

import "glowplug/internal/domain/model"

// Booted is how many hosts boot an image, and how many of them boot a system that cannot read their config.
type Booted struct{ Hosts, Unreadable int }

// Booted counts the hosts of each image, in the namespaces that may be shown.
func (h *Hub) Booted(may func(namespace string) bool) map[model.Ref]Booted {
	allowed, counts := map[string]bool{}, map[model.Ref]Booted{}
	for host := range h.opts.Inventory.View().AllHosts() {
		isAllowed, isKnown := allowed[host.Namespace]
		if !isKnown {
			isAllowed = may(host.Namespace)
			allowed[host.Namespace] = isAllowed
		}
		if !isAllowed || host.Image == (model.Ref{}) {
			continue
		}
		n := counts[host.Image]
		n.Hosts++
		if host.Unmet&model.ConfigReadable != 0 {
			n.Unreadable++
		}
		counts[host.Image] = n
	}
	return counts
}
