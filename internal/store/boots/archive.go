package boots

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/batch"
)

// archivePause is between two batches for the history: in a storm many former boots are in one.
const archivePause = 100 * time.Millisecond

// overwritten returns the former boots that the bucket has had. They go to the history before the next one overwrites
// them, and the others once the bucket has a later one: the history must never be ahead of the bucket, from which a
// server that starts goes on to count.
func (m *machine) overwritten() []*v1.Boot {
	n := 0
	for m.revision > 0 && n < len(m.ended) && m.ended[n].Number <= m.kept {
		n++
	}
	return m.ended[:n]
}

// leaveLocked has the former boots of a machine taken into the history, as far as they can: the next one waits.
func leaveLocked(t *Tracker, m *machine) {
	if !m.leaving && len(m.overwritten()) > 0 {
		m.leaving = true
		t.leaving = append(t.leaving, m)
		notify(t.left)
	}
}

// keepFormer takes former boots into the history until ctx ends. Those that are on their way then are stored as well.
func keepFormer(ctx context.Context, t *Tracker) {
	for ctx.Err() == nil {
		sleep(ctx, idle, t.left)
		for ctx.Err() == nil && archiveNext(context.WithoutCancel(ctx), t) > 0 {
			sleep(ctx, archivePause, nil)
		}
	}
}

// archiveNext takes the next former boots into the history. n is their number. Those that it does not take are tried
// once more with the write of the next boot.
func archiveNext(ctx context.Context, t *Tracker) (n int) {
	t.mu.Lock()
	taken := 0
	var former []*v1.Boot
	for ; taken < len(t.leaving) && len(former)+maxEnded <= batch.Max; taken++ {
		former = append(former, t.leaving[taken].overwritten()...)
	}
	machines, archive := t.leaving[:taken], t.archive
	t.leaving = t.leaving[taken:]
	t.mu.Unlock()
	err := keep(ctx, archive, former)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range machines {
		m.leaving = false
		if err == nil {
			m.ended = slices.DeleteFunc(m.ended, func(b *v1.Boot) bool { return slices.Contains(former, b) })
			leaveLocked(t, m)
		}
		if m.unstored() {
			t.enqueueLocked(m)
		}
	}
	return len(former)
}

// keep takes former boots into the history, which may be nil, and logs and counts those that it does not take.
func keep(ctx context.Context, archive Archive, former []*v1.Boot) (err error) {
	for part := range slices.Chunk(former, batch.Max) {
		if archive != nil {
			err = errors.Join(err, archive.Append(ctx, part))
		}
	}
	return err
}
