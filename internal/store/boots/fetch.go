package boots

import (
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// Fetch counts that the config of a host is about to be served to the sender of a request: a config
// whose answer breaks off was given away as well. closed says why the limits of the host do not allow it.
// notice is not nil where it is refused, or served to a second address in its provisioning window.
func (t *Tracker) Fetch(req *decide.Request, host *model.Host, limits model.Limits) (
	notice *decide.Notice, closed string,
) {
	client := req.Caller.Addr
	isSecond := false
	next := t.replace(host, func(before model.Progress) (next model.Progress) {
		next, isSecond, closed = decide.Fetch(host, before, limits, client, req.At)
		return next
	})
	switch {
	case closed != "":
		n := decide.WindowClosed(host, client.String(), closed)
		return &n, closed
	case isSecond:
		n := decide.SecondClient(host, next.Window.First, client)
		return &n, ""
	}
	return nil, ""
}

// IssueToken returns the time of issue of the token in the script that the machine of a host is about to
// receive: a new one where a boot begins. again is true where the machine has asked before in this boot.
func (t *Tracker) IssueToken(host *model.Host, again bool, at time.Time) time.Time {
	next := t.replace(host, func(before model.Progress) model.Progress {
		return decide.IssueToken(host, before, again, at)
	})
	return next.Window.Token
}

// replace replaces the progress of a host by what follows it, at once in memory and soon in the store.
func (t *Tracker) replace(host *model.Host, following func(before model.Progress) model.Progress) (
	next model.Progress,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machineLocked(host)
	next = following(m.Progress)
	if !t.closed && !decide.Same(m.Progress, next) {
		m.Progress = next
		t.changedLocked(m, true)
	}
	return next
}
