package snapshot

import "glowplug/internal/domain/template"

// Facts returns what templates know of the host.
func (h *Host) Facts() *template.Facts {
	f := &template.Facts{Namespace: h.Namespace, Name: h.Name, Labels: h.Labels}
	if len(h.Hostnames) > 0 {
		f.Hostname = h.Hostnames[0]
	}
	if len(h.IPs) > 0 {
		f.IP = h.IPs[0].String()
	}
	if len(h.MACs) > 0 {
		f.MAC = h.MACs[0].String()
	}
	if h.More != nil {
		f.Annotations, f.NICs = h.More.Annotations, h.More.NICs
	}
	return f
}
