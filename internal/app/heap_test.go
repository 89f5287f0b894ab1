package app

import "testing"

// The collector gets more room where it takes much of the processor time, and while nothing is known it does not.
func TestCollectorIsCostly(t *testing.T) {
	before := collection{2, 10}
	for _, c := range []struct {
		now  collection
		want bool
	}{
		{before, false}, {collection{2.1, 11}, false}, {collection{2.3, 11}, false}, {collection{2.4, 11}, true},
		{collection{3, 10}, true},
	} {
		if got := c.now.isCostlySince(before); got != c.want {
			t.Errorf("%+v: %t, want %t", c.now, got, c.want)
		}
	}
}

func TestCollectorPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64 // MiB
		busy bool
		want int
	}{
		{0, false, 400}, {16, false, 400}, {32, false, 300}, {96, false, 100}, {192, false, 50}, {430, false, 20},
		{4096, false, 20},
		{16, true, 2400}, {128, true, 300}, {320, true, 100}, {600, true, 20}, {4096, true, 20},
	} {
		if got := collectorPercent(c.live<<20, c.busy); got != c.want {
			t.Errorf("%d MiB alive, busy %t: %d, want %d", c.live, c.busy, got, c.want)
		}
	}
}
