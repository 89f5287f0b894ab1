package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/report"
)

// maxAttention is how many objects of a kind are named that need attention, and maxServers how many servers are.
const (
	maxAttention = 10
	maxServers   = 20
)

// Overview is what is known of all servers, hosts, images and configs.
type Overview struct {
	Servers []MemberStatus `json:"servers"`
	// Store is where the objects are: Embedded or NATS. StoreReady is true where each server that runs reads and
	// writes it.
	Store      string `json:"store,omitempty"`
	StoreReady bool   `json:"storeReady"`
	// LastBackup is when a server has made its last good backup; nil: none makes any.
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
	// Hosts are counted by their state, Images and Configs by their phase; nil: the user may not read them.
	Hosts   map[string]int `json:"hosts,omitempty"`
	Images  map[string]int `json:"images,omitempty"`
	Configs map[string]int `json:"configs,omitempty"`
	// Attention is what an operator has to look at, one sentence each.
	Attention []string `json:"attention,omitempty"`
	// Withheld is what could not be read, and why.
	Withheld []string `json:"withheld,omitempty"`

	unnamed map[string]int // by kind: those that need attention and are not named
}

// MemberStatus is a server with its name.
type MemberStatus struct {
	Name            string `json:"name"`
	v1.MemberStatus `json:",inline"`
}

// AddMembers adds the servers.
func (o *Overview) AddMembers(members []v1.Member, now time.Time) {
	o.StoreReady = true
	isStoreSeen := false
	for i := range members {
		m := &members[i]
		s := &m.Status
		o.Servers = append(o.Servers, MemberStatus{m.Name, *s})
		o.Store = cmp.Or(o.Store, s.Store)
		if s.LastBackup != nil && (o.LastBackup == nil || s.LastBackup.After(o.LastBackup.Time)) {
			o.LastBackup = s.LastBackup
		}
		switch s.State {
		case v1.MemberMissing:
			o.attend("server", m.Name, "missing, last seen "+Ago(&s.LastSeen, now)+": start it, or if it is gone for good "+
				"kubectl delete member "+m.Name)
		case v1.MemberReady, v1.MemberNotReady:
			isStoreSeen = true
		}
		for _, text := range s.Errors {
			o.attend("server", m.Name, "not ready: "+text)
			if strings.HasPrefix(text, "nats") || strings.HasPrefix(text, "store-") {
				o.StoreReady = false
			}
		}
	}
	o.StoreReady = o.StoreReady && isStoreSeen
}

// AddHosts adds hosts.
func (o *Overview) AddHosts(hosts []v1.BareMetalHost) {
	o.Hosts = counted(o.Hosts)
	for i := range hosts {
		h := StatusOf(&hosts[i])
		o.Hosts[cmp.Or(h.State, v1.StateAvailable)]++
		if len(h.Attention) > 0 {
			o.attend("host", h.Host, strings.Join(h.Attention, " · "))
		}
	}
}

// AddImages adds images.
func (o *Overview) AddImages(images []v1.ISCSICdrom) {
	o.Images = counted(o.Images)
	for i := range images {
		o.phase(o.Images, "image", &images[i].ObjectMeta, images[i].Status.Phase, images[i].Status.ErrorMessage)
	}
}

// AddConfigs adds configs.
func (o *Overview) AddConfigs(configs []v1.IgnitionConfig) {
	o.Configs = counted(o.Configs)
	for i := range configs {
		o.phase(o.Configs, "config", &configs[i].ObjectMeta, configs[i].Status.Phase, configs[i].Status.ErrorMessage)
	}
}

func counted(counts map[string]int) map[string]int {
	if counts == nil {
		return map[string]int{}
	}
	return counts
}

func (o *Overview) phase(counts map[string]int, kind string, meta *metav1.ObjectMeta, phase, message string) {
	counts[cmp.Or(phase, v1.PhasePending)]++
	if phase == v1.PhaseError {
		o.attend(kind, meta.Namespace+"/"+meta.Name, "Error: "+message)
	}
}

// attend adds what an operator has to look at; of many objects of a kind, those that are first.
func (o *Overview) attend(kind, name, text string) {
	prefix := kind + " "
	named := 0
	for _, line := range o.Attention {
		if strings.HasPrefix(line, prefix) {
			named++
		}
	}
	if named < maxAttention {
		o.Attention = append(o.Attention, prefix+name+": "+text)
		return
	}
	o.unnamed = counted(o.unnamed)
	o.unnamed[kind]++
}

// End ends the list of what needs attention with how much is not named.
func (o *Overview) End() {
	for _, kind := range []string{"server", "host", "image", "config"} {
		if n := o.unnamed[kind]; n > 0 {
			o.Attention = append(o.Attention, fmt.Sprintf("%ss: %d more", kind, n))
		}
	}
}

// Withhold adds what could not be read.
func (o *Overview) Withhold(what string, reason error) {
	o.Withheld = append(o.Withheld, what+": "+reason.Error())
}

// Lines returns the overview as lines.
func (o *Overview) Lines(now time.Time) []Line {
	var l lines
	for i := range o.Servers[:min(len(o.Servers), maxServers)] {
		l.add("server "+o.Servers[i].Name, o.Servers[i].text(now)...)
	}
	if n := len(o.Servers) - maxServers; n > 0 {
		l.add("servers", fmt.Sprintf("%d more", n))
	}
	if len(o.Servers) > 0 {
		ready := "ready"
		if !o.StoreReady {
			ready = "not ready"
		}
		l.add("store", o.Store, ready)
		l.add("last backup", cmp.Or(Ago(o.LastBackup, now), "none is scheduled"))
	}
	l.add("hosts", sums(o.Hosts)...)
	l.add("images", sums(o.Images)...)
	l.add("configs", sums(o.Configs)...)
	return l
}

// text says how a server is.
func (s *MemberStatus) text(now time.Time) (parts []string) {
	parts = append(parts, s.State, s.Version, s.Address)
	if s.State == v1.MemberMissing || s.State == v1.MemberStopped {
		return append(parts, "last seen "+Ago(&s.LastSeen, now))
	}
	parts = append(parts, "started "+Ago(&s.Started, now))
	if s.StoreLag > 0 {
		parts = append(parts, Count(int(s.StoreLag), "change", "changes")+" behind the store")
	}
	if s.DataFree != nil {
		parts = append(parts, cmp.Or(report.Size(*s.DataFree), "nothing")+" free for data")
	}
	if s.ImagesFree != nil {
		parts = append(parts, cmp.Or(report.Size(*s.ImagesFree), "nothing")+" free for images")
	}
	if len(s.Leads) > 0 {
		parts = append(parts, "leads "+strings.Join(s.Leads, " and "))
	}
	return parts
}

// sums returns the sum of counts and each of them, the largest first; nil for no counts.
func sums(counts map[string]int) (parts []string) {
	if counts == nil {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	all := 0
	for _, name := range names {
		all += counts[name]
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	if len(names) > 1 {
		parts = slices.Insert(parts, 0, fmt.Sprintf("%d in all", all))
	}
	return parts
}

// Text returns the overview as a text, with what needs attention.
func (o *Overview) Text(now time.Time) string {
	var b strings.Builder
	writeLines(&b, o.Lines(now))
	writeList(&b, "Needs attention:", o.Attention)
	if len(o.Attention)+len(o.Withheld) == 0 {
		b.WriteString(nothing)
	}
	writeList(&b, "Not read:", o.Withheld)
	return b.String()
}
