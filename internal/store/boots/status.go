package boots

import (
	"context"
	"fmt"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// SetStatus takes over what an administrator has changed in the status of a host, and returns once that is durable.
// All else in the status follows the boot of the host.
func (t *Tracker) SetStatus(ctx context.Context, host, old *v1.BareMetalHost) error {
	was, now := model.HostFrom(old), model.HostFrom(host)
	if was == nil || now == nil {
		return fmt.Errorf("host %s/%s cannot be read", host.Namespace, host.Name)
	}
	isConfig := host.Status.LastConfig != old.Status.LastConfig || host.Status.LastConfigHash != old.Status.LastConfigHash
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return errClosed
	}
	m := t.machineLocked(was)
	isChanged := takeChanges(&m.Progress, &was.Progress, &now.Progress) || isConfig
	if !isChanged && m.revision > 0 { // what is stored is what the status says; a lost boot is stored again
		t.mu.Unlock()
		return nil
	}
	b := t.openLocked(m)
	if isConfig {
		m.Config, m.Hash = refOf(host.Status.LastConfig), host.Status.LastConfigHash
		b.Config = &v1.BootConfig{Name: host.Status.LastConfig, Hash: m.Hash}
	}
	t.changedLocked(m, true)
	t.mu.Unlock()
	return t.awaitStored(ctx, was)
}

// takeChanges makes in a state the changes from one status to another. It reports whether there are any.
func takeChanges(state, from, to *model.Progress) (isChanged bool) {
	isChanged = set(&state.State, from.State, to.State)
	isChanged = set(&state.Rearmed, from.Rearmed, to.Rearmed) || isChanged
	isChanged = set(&state.Boots, from.Boots, to.Boots) || isChanged
	if !decide.Same(model.Progress{Window: from.Window}, model.Progress{Window: to.Window}) {
		state.Window, isChanged = to.Window, true
	}
	for _, t := range []struct{ at, from, to *time.Time }{
		{&state.Seen, &from.Seen, &to.Seen}, {&state.Script, &from.Script, &to.Script}, {&state.Boot, &from.Boot, &to.Boot},
	} {
		if !t.from.Equal(*t.to) {
			*t.at, isChanged = *t.to, true
		}
	}
	return isChanged
}

// set sets a value that has changed.
func set[T comparable](at *T, from, to T) (isChanged bool) {
	if from != to {
		*at = to
	}
	return from != to
}
