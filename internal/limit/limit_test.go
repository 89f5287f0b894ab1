package limit

import (
	"testing"
	"time"
)

// TestTable: a flood of keys fills no memory, and those that were used last stay.
func TestTable(t *testing.T) {
	table := Buckets[int](2, PerSecond(1, 1))
	now := time.Now()
	if !table.Of(1).AllowN(now, 1) || !table.Of(2).AllowN(now, 1) || table.Of(1).AllowN(now, 1) {
		t.Error("each key has a bucket of its own")
	}
	table.Of(3) // in place of 2
	if table.Len() != 2 || table.Of(1).AllowN(now, 1) || !table.Of(2).AllowN(now, 1) {
		t.Errorf("not the key that was used longest ago is forgotten: %v", table.Keys())
	}
}

func TestRate(t *testing.T) {
	now := time.Now()
	for name, rate := range map[string]Rate{"a second": PerSecond(10, 20), "by the time": {100 * time.Millisecond, 20}} {
		bucket := rate.Bucket()
		allowed := func(now time.Time) (n int) {
			for bucket.AllowN(now, 1) {
				n++
			}
			return n
		}
		if at, later := allowed(now), allowed(now.Add(time.Second)); at != 20 || later != 10 {
			t.Errorf("%s: %d at once, and %d a second later", name, at, later)
		}
	}
}

func TestCounts(t *testing.T) {
	c := Counts[string]{}
	c.Add("a", 1)
	c.Add("a", 1)
	c.Add("b", 1)
	c.Add("b", -1)
	if len(c) != 1 || c["a"] != 2 {
		t.Errorf("%v", c)
	}
}
