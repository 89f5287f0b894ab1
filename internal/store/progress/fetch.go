package progress

import (
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// Fetch counts that the config of a host is about to be served to the sender of a request: a config
// whose answer breaks off was given away as well. closed says why the limits of the host do not allow it.
// notice is not nil where it is refused, or served to a second address in its provisioning window.
func (t *Tracker) Fetch(req *decide.Request, host *snapshot.Host, limits snapshot.Limits) (
	notice *decide.Notice, closed string,
) {
	client := req.Caller.Addr
	t.mu.Lock()
	m := t.machineLocked(host)
	before := m.Merge(host.Progress)
	next, isSecond, closed := decide.Fetch(host, before, limits, client, req.At)
	mustWake := false
	if !t.closed && !decide.Same(before, next) {
		m.Progress = next
		mustWake = t.changedLocked(m, &before)
	}
	t.mu.Unlock()
	if mustWake {
		t.wakeWriter()
	}
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
