package stream

import (
	"testing"
	"time"
)

func TestDispute(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var d dispute
	for i, c := range []struct {
		after         time.Duration
		hash, release string
		want          time.Duration
	}{
		{0, "a", "1", 0}, {0, "a", "1", 0}, {0, "a", "1", 0}, {0, "a", "1", 0}, // the first, and three at once
		{0, "a", "1", 500 * time.Millisecond}, {0, "a", "1", time.Second}, {0, "a", "1", 2 * time.Second},
		{0, "b", "1", 0}, {0, "b", "2", 0}, // another is no dispute
		{0, "b", "2", 0}, {0, "b", "2", 0}, {0, "b", "2", 0}, {0, "b", "2", 500 * time.Millisecond},
		{calm + 1, "b", "2", 0}, // it has calmed down
	} {
		now = now.Add(c.after)
		if got := d.write(c.hash, c.release, now); got != c.want {
			t.Errorf("%d: %s, not %s", i, got, c.want)
		}
	}
	d.times = 1 << 40
	if got := d.write("b", "2", now); got != retryMost {
		t.Error(got)
	}
}
