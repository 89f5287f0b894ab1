package progress

import (
	"time"

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
	mustWake := t.replaceLocked(m, &before, next)
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

// IssueToken returns the time of issue of the token in the script that the machine of a host is about to
// receive: a new one where a boot begins. again is true where the machine has asked before in this boot.
func (t *Tracker) IssueToken(host *snapshot.Host, again bool, at time.Time) time.Time {
	t.mu.Lock()
	m := t.machineLocked(host)
	before := m.Merge(host.Progress)
	next := decide.IssueToken(host, before, again, at)
	mustWake := t.replaceLocked(m, &before, next)
	t.mu.Unlock()
	if mustWake {
		t.wakeWriter()
	}
	return next.Window.Token
}

// replaceLocked replaces the progress of a machine. It reports whether the writer has to be woken.
func (t *Tracker) replaceLocked(m *machine, before *snapshot.Progress, next snapshot.Progress) (mustWake bool) {
	if t.closed || decide.Same(*before, next) {
		return false
	}
	m.Progress = next
	return t.changedLocked(m, before)
}
