package decide

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// armAgain is the remedy where the config of a host is not served any more.
const armAgain = "; arm the host again (annotation " + v1.AnnotationRearm + ")"

// isRearmed reports whether a value of the annotation arms a host that has not taken effect yet.
func isRearmed(h *model.Host, p *model.Progress) bool {
	rearm := h.Booting().Rearm
	return rearm != "" && rearm != p.Rearmed
}

// windowOf returns the use of the present provisioning window of a host: the recorded one or, since
// the host was armed again, a new one. A provisioned host that was not armed again has none.
func windowOf(h *model.Host, p *model.Progress) model.Window {
	armed := h.ArmedAt().Truncate(time.Second)
	if p.Window != nil && p.Window.Opened.Equal(armed) {
		return *p.Window
	}
	w := model.Window{Opened: armed}
	if p.Window != nil {
		w.Token = p.Window.Token
	}
	if p.State == v1.StateProvisioned && !isRearmed(h, p) {
		w.Closed = armed
	}
	return w
}

// Closed says why limits keep the config of a host from a client at a time, as the end of a sentence;
// "": they do not. An invalid client is not known, and counts as a new one.
func Closed(h *model.Host, p model.Progress, limits model.Limits, client netip.Addr, at time.Time) string {
	w := windowOf(h, &p)
	return whyClosed(&w, &p, limits, client, at)
}

// whyClosed is Closed for the use of a window.
func whyClosed(
	w *model.Window, p *model.Progress, limits model.Limits, client netip.Addr, at time.Time,
) string {
	end := w.Opened.Add(limits.Window)
	switch {
	case limits.Window > 0 && !w.Closed.IsZero():
		return "its provisioning window is closed: the machine is provisioned"
	case limits.Window > 0 && at.After(end):
		return "its provisioning window of " + limits.Window.String() + " ended at " + end.UTC().Format(time.RFC3339)
	case limits.MaxFetches > 0 && w.Fetches >= limits.MaxFetches && !isRepeated(w, p, client, at):
		return "its maxFetches of " + strconv.FormatInt(limits.MaxFetches, 10) + " is used up since " +
			w.Opened.UTC().Format(time.RFC3339)
	}
	return ""
}

// maxClients bounds the clients of a boot that are remembered. Each request of a further one counts.
const maxClients = 16

// isRepeated reports whether a client has received the config before in the present boot: it is a
// retry of the installer, and does not count.
func isRepeated(w *model.Window, p *model.Progress, client netip.Addr, at time.Time) bool {
	return w.Boot == bootOf(p, at) && slices.Contains(w.Clients, client)
}

// bootOf returns the number of the boot that a request for a config belongs to.
func bootOf(p *model.Progress, at time.Time) int64 {
	if beginsBoot(*p, ConfigStep, at) {
		return p.Boots + 1
	}
	return p.Boots
}

// Fetch returns the progress of a host once its config is served to a client, or the reason why it is
// not: Closed. isSecond is true for another address than the one that received it first in the
// provisioning window, once in a boot.
func Fetch(h *model.Host, p model.Progress, limits model.Limits, client netip.Addr, at time.Time) (
	next model.Progress, isSecond bool, closed string,
) {
	w := windowOf(h, &p)
	if closed = whyClosed(&w, &p, limits, client, at); closed != "" {
		return p, false, closed
	}
	if isRepeated(&w, &p, client, at) {
		return p, false, ""
	}
	next, use := p, w // a retry, which is frequent, allocates nothing
	next.Window = &use
	if boot := bootOf(&p, at); boot != w.Boot {
		use.Boot, use.Clients = boot, nil
	}
	use.Fetches++
	if !use.First.IsValid() {
		use.First = client
	}
	if client.IsValid() && len(use.Clients) < maxClients {
		use.Clients = append(slices.Clip(use.Clients), client)
	}
	return next, client != use.First, ""
}

// scriptWindow returns the use of the provisioning window once the machine of a host that is armed has its script.
// The script that follows a new value of the annotation begins another window, also where an installation that
// ended meanwhile has closed the present one. Limits has none for a machine that boots its image forever.
func scriptWindow(h *model.Host, before *model.Progress) model.Window {
	w := windowOf(h, before)
	if isRearmed(h, before) {
		return model.Window{Opened: w.Opened, Token: w.Token}
	}
	return w
}

// useWindow returns the use of the provisioning window after a step; nil: none is recorded.
func useWindow(h *model.Host, before *model.Progress, step Step, at time.Time) *model.Window {
	if before.Window == nil {
		return nil
	}
	switch step {
	case ImageStep, AgainStep:
		w := scriptWindow(h, before)
		if sameWindow(&w, before.Window) {
			break
		}
		next := w // a repeated script allocates nothing
		return &next
	case CompleteStep:
		if before.Window.Closed.IsZero() {
			w := *before.Window
			w.Closed = at.Truncate(time.Second)
			return &w
		}
	}
	return before.Window
}

// sameWindow reports whether two records of the use of a window are equal.
func sameWindow(a, b *model.Window) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Opened.Equal(b.Opened) && a.Closed.Equal(b.Closed) && a.Fetches == b.Fetches && a.First == b.First &&
		slices.Equal(a.Clients, b.Clients) && a.Boot == b.Boot && a.Token.Equal(b.Token)
}

// LaterWindow merges two records of the use of windows, of which two servers wrote one each: the later
// window counts and, of the same window, the use by which more is refused. The later token counts.
func LaterWindow(a, b *model.Window) *model.Window {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	w, other := *b, a
	if a.Opened.After(b.Opened) {
		w, other = *a, b
	}
	if other.Opened.Equal(w.Opened) {
		w.Fetches = max(a.Fetches, b.Fetches)
		if w.Closed.IsZero() {
			w.Closed = other.Closed
		}
	}
	if other.Token.After(w.Token) {
		w.Token = other.Token
	}
	return &w
}

// limit refuses the config of a host outside its limits.
func (q *configQuestion) limit() *fault.Error {
	h := q.dec.Host
	if h == nil || q.req.Caller.Believed {
		return nil
	}
	if q.dec.Limits = q.view.Limits(h); q.dec.Limits == (model.Limits{}) || q.req.At.IsZero() {
		return nil
	}
	p := progressOf(q.decider.opts.Progress, h)
	if failure := refuseToken(&q.question, q.dec.Limits, &p); failure != nil {
		q.dec.Limited = true
		return failure
	}
	closed := Closed(h, p, q.dec.Limits, q.req.Caller.Addr, q.req.At)
	if closed == "" {
		return nil
	}
	q.dec.Limited = true
	q.dec.Notices = append(q.dec.Notices, WindowClosed(h, q.who(), closed))
	return RefusedByLimits(h, closed)
}

// progressOf returns the progress of a host, which may be newer than its status.
func progressOf(known Progress, h *model.Host) model.Progress {
	if known == nil {
		return h.Progress
	}
	return known.Progress(h)
}

// RefusedByLimits is the answer to a machine outside the limits of its host. closed is the reason, as
// Closed has it.
func RefusedByLimits(h *model.Host, closed string) *fault.Error {
	return fault.New(fault.Refused, "the config of host "+h.Ref.String()+" is not served: "+closed+armAgain)
}

// WindowClosed is the notice of a request outside the limits of a host. who sent it.
func WindowClosed(h *model.Host, who, closed string) Notice {
	return Notice{
		Reason: ReasonWindowClosed, Host: h, Key: who,
		Message: "a request for the config from " + who + " was refused: " + closed + armAgain,
	}
}

// SecondClient is the notice that the config was served to another address in the same window.
func SecondClient(h *model.Host, first, client netip.Addr) Notice {
	return Notice{
		Reason: ReasonSecondClient, Host: h, Key: client.String(),
		Message: "the config was served to " + client.String() + ", after " + first.String() +
			" had received it in the same provisioning window",
	}
}

// PlainHTTP is the notice of a request over plain HTTP for a config that is served over HTTPS alone, and to
// which the client cannot be pointed.
func PlainHTTP(h *model.Host, client netip.Addr, config model.Ref) Notice {
	return Notice{
		Reason: ReasonPlainHTTP, Host: h, Key: client.String(),
		Message: "a request from " + client.String() + " over plain HTTP for config " + config.String() +
			" was refused: it is served over HTTPS alone (--configs-over-https), and only Ignition can be referred " +
			"there",
	}
}
