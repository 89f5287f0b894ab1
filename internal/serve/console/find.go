package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/netaddr"
)

// maxFound is how many objects a search shows.
const maxFound = 50

// found is an object that a search has found.
type found struct{ Kind, Name, URL, State string }

// find shows the hosts, configs, images and unknown machines with a name, a hardware address, an address, a UUID or a
// serial number, and goes to the only one.
func (s *Server) find(w http.ResponseWriter, r *http.Request, p *page) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	p.Title = "Find"
	var all []found
	if text != "" {
		all = slices.Concat(findHosts(p, text), findObjects(p, text), findMachines(p, text))
	}
	if len(all) == 1 {
		http.Redirect(w, r, all[0].URL, http.StatusSeeOther)
		return
	}
	p.show(w, "find", map[string]any{"Text": text, "Found": all[:min(len(all), maxFound)], "All": len(all)})
}

// addressFields are the fields that select a host by an address.
func addressFields(text string) string {
	if _, err := netaddr.ParseMAC(text); err == nil {
		return "spec.bootMACAddress=" + text
	}
	if _, err := netaddr.ParseIP(text); err == nil {
		return "spec.ip=" + text
	}
	if _, err := netaddr.ParseUUID(text); err == nil {
		return "spec.systemUUID=" + text
	}
	return ""
}

func findHosts(p *page, text string) (all []found) {
	if selector := addressFields(text); selector != "" {
		each(p, kinds.BareMetalHosts, url.Values{"fieldSelector": {selector}}, func(list *v1.BareMetalHostList) {
			for i := range list.Items {
				h := &list.Items[i]
				all = append(all, found{"BareMetalHost", h.Namespace + "/" + h.Name, objectURL("hosts", h.Namespace, h.Name),
					h.Status.State})
			}
		})
		return all
	}
	for _, c := range p.cells() {
		if strings.Contains(c.Ref.String(), strings.ToLower(text)) {
			all = append(all, found{"BareMetalHost", c.Ref.String(), objectURL("hosts", c.Namespace, c.Name), c.State})
		}
	}
	return all
}

// findObjects finds configs and images by their names.
func findObjects(p *page, text string) (all []found) {
	configs, images := p.server.opts.Live.Names()
	for _, kind := range []struct {
		name, resource, pages string
		refs                  []string
	}{{"IgnitionConfig", kinds.IgnitionConfigs, "configs", configs}, {"ISCSICdrom", kinds.ISCSICdroms, "images", images}} {
		for _, ref := range kind.refs {
			namespace, _, _ := strings.Cut(ref, "/")
			if strings.Contains(ref, strings.ToLower(text)) && p.may(kind.resource, namespace) {
				all = append(all, found{Kind: kind.name, Name: ref, URL: refURL(kind.pages, ref)})
			}
		}
	}
	return all
}

// findMachines finds unknown machines by what they say of themselves.
func findMachines(p *page, text string) (all []found) {
	text = strings.ToLower(text)
	for _, m := range p.unknownMachines(maxUnknown) {
		said := strings.Join(slices.Concat([]string{m.Name, m.Status.MAC, m.Status.SystemUUID, m.Status.Serial},
			m.Status.Addresses, m.Status.Hostnames), "\n")
		if strings.Contains(strings.ToLower(said), text) {
			all = append(all, found{Kind: "UnknownMachine", Name: m.Name, URL: Prefix + "unknown"})
		}
	}
	return all
}
