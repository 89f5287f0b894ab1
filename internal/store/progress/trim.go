package progress

import (
	"context"
	"time"
)

const (
	// trimInterval is the time between two trims of the boot log.
	trimInterval = 2 * time.Second
	// maxLag is the number of messages of the boot log that may wait for one host, whose
	// status cannot be written: its state is then written into the log again.
	maxLag = 1 << 12
)

// trim removes from the boot log the messages that the statuses include, until ctx ends.
func (t *Tracker) trim(ctx context.Context) {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	trimmed := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if upTo := t.included(); upTo > trimmed {
			if err := t.log.Trim(ctx, upTo); err != nil {
				t.opts.Logger.Debug("the boot log is not trimmed", "error", err)
				continue
			}
			trimmed = upTo
		}
	}
}

// included returns the sequence up to which all messages of the boot log are in the
// status of hosts.
func (t *Tracker) included() (upTo uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	upTo = t.applied
	carry := false
	for _, m := range t.machines {
		if m.oldest == 0 {
			continue
		}
		upTo = min(upTo, m.oldest-1)
		if m.oldest+maxLag < t.applied && !m.carried {
			m.carried, carry = true, true
			t.enqueueLocked(m)
		}
	}
	if carry {
		t.wakeWriter()
	}
	return upTo
}
