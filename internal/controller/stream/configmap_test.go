package stream

import (
	"testing"
	"time"
)

func TestRewrites(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := newRewrites()
	a, b := written{"a", "1"}, written{"a", "2"}
	for i, c := range []struct {
		after   time.Duration
		release written
		want    time.Duration
	}{
		{0, a, 0}, {0, a, 50 * time.Millisecond}, {50 * time.Millisecond, a, 0},
		{40 * time.Millisecond, a, 60 * time.Millisecond}, {60 * time.Millisecond, a, 0}, {0, a, 200 * time.Millisecond},
		{0, b, 0}, {0, b, 50 * time.Millisecond}, // another release is no rewrite
		{rewriteCalm, b, 0}, {0, b, 100 * time.Millisecond},
		{rewriteCalm + time.Second, b, 0}, {0, b, 50 * time.Millisecond}, // forgotten
	} {
		now = now.Add(c.after)
		got := max(0, r.pause(c.release, now))
		if got != c.want {
			t.Errorf("%d: %s, not %s", i, got, c.want)
		}
		if got == 0 {
			r.wrote(now)
		}
	}
	for range 100 {
		r.wrote(now)
	}
	if got := r.pause(b, now); got != rewritePauseMax {
		t.Error(got)
	}
}
