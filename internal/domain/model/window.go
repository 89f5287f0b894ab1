package model

import (
	"cmp"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// Limits are those for the config of a host; zero: there are none.
type Limits struct {
	// Window is the time after the host was armed in which its config is served.
	Window time.Duration
	// MaxFetches is how often its config is served.
	MaxFetches int64
	// Token is true where the machine needs the token of its boot.
	Token bool
}

// Limits returns the limits for the config of a host: its own or, where it has none, those of its
// namespace. For a machine that boots its image forever neither time nor number is limited, since each
// boot needs the config.
func (v View) Limits(h *Host) (l Limits) {
	own, defaults := &h.Booting().Provisioning, &v.namespace(h.Namespace).Provisioning
	if token := cmp.Or(own.Token, defaults.Token); token != nil {
		l.Token = *token
	}
	if h.Booting().Forever {
		return l
	}
	if window := cmp.Or(own.Window, defaults.Window); window != nil {
		l.Window = window.Duration
	}
	if fetches := cmp.Or(own.MaxFetches, defaults.MaxFetches); fetches != nil {
		l.MaxFetches = int64(*fetches)
	}
	return l
}

// HasScript reports whether there is something that the script of a host boots, other than its disk: an image, or
// what a script of its own or of its namespace names.
func (v View) HasScript(h *Host) bool {
	return !h.Booting().Disk && (h.Image != (Ref{}) || v.Script(h) != "")
}

// ArmedAt returns the time at which a host was armed: when it was created, or armed again.
func (h *Host) ArmedAt() time.Time {
	if armed := h.Booting().Armed; !armed.IsZero() {
		return armed
	}
	return h.Created
}

// Window is the use of a provisioning window: of the time in which a machine receives its config.
type Window struct {
	// Opened is the time at which the host was armed, and Closed the time at which the machine
	// reported that it is provisioned; zero: it did not. Both have whole seconds.
	Opened, Closed time.Time
	// Fetches is how often the config was served, to First first. Boot is the number of the boot in
	// which it was last counted, and Clients are those that have received it in this boot.
	Fetches int64
	First   netip.Addr
	Boot    int64
	Clients []netip.Addr
	// Token is the time at which the token of the present boot was issued, in whole seconds; zero: none was.
	Token time.Time
}

// WindowOf returns the use of a window by the status of a host; nil: it has none.
func WindowOf(p *v1.ProvisioningStatus) *Window {
	if p == nil {
		return nil
	}
	w := &Window{
		Opened: time.Time(whole(&p.Opened)), Closed: time.Time(whole(p.Closed)), Fetches: max(0, p.Fetches), Boot: p.Boot,
		Token: time.Time(whole(p.TokenIssued)),
	}
	w.First, _ = netip.ParseAddr(p.FirstClient) // "" is none
	for _, client := range p.Clients {
		if addr, err := netip.ParseAddr(client); err == nil {
			w.Clients = append(w.Clients, addr)
		}
	}
	return w
}

// Status returns the use of a window for the status of a host; nil: there is none.
func (w *Window) Status() *v1.ProvisioningStatus {
	if w == nil {
		return nil
	}
	p := &v1.ProvisioningStatus{
		Opened: metav1.Time{Time: w.Opened}, Closed: StatusTime(w.Closed), TokenIssued: StatusTime(w.Token),
		Fetches: w.Fetches, Boot: w.Boot,
	}
	if w.First.IsValid() {
		p.FirstClient = w.First.String()
	}
	for _, client := range w.Clients {
		p.Clients = append(p.Clients, client.String())
	}
	return p
}

// StatusTime returns a time for a status; nil: it is zero.
func StatusTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
