package stream

import (
	"testing"
	"time"
)

func TestRewrites(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var r rewrites
	for i, c := range []struct {
		after         time.Duration
		hash, release string
		want          time.Duration
	}{
		{0, "a", "1", 0}, {0, "a", "1", 0}, {0, "a", "1", 0}, {0, "a", "1", 0}, // the first, and three at once
		{0, "a", "1", 500 * time.Millisecond}, {500 * time.Millisecond, "a", "1", 0},
		{300 * time.Millisecond, "a", "1", 700 * time.Millisecond}, {700 * time.Millisecond, "a", "1", 0},
		{0, "a", "1", 2 * time.Second},
		{0, "b", "1", 0}, {0, "b", "2", 0}, // another release is no rewrite
		{0, "b", "2", 0}, {0, "b", "2", 0}, {0, "b", "2", 0}, {0, "b", "2", 500 * time.Millisecond},
		{quietTime + 1, "b", "2", 0}, // forgotten
	} {
		now = now.Add(c.after)
		got := max(0, r.pause(c.hash, c.release, now))
		if got != c.want {
			t.Errorf("%d: %s, not %s", i, got, c.want)
		}
		if got == 0 {
			r.wrote(now)
		}
	}
	r.writes = 1 << 40
	if got := r.backOff(); got != rewritePauseMax {
		t.Error(got)
	}
}
