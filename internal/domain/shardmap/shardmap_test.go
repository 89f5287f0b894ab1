package shardmap

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestAgreesWithAMap makes random edits, and has every map on the way stay as it
// was.
func TestAgreesWithAMap(t *testing.T) {
	type pair struct {
		ours   Map[int, int]
		theirs map[int]int
	}
	for _, keys := range []int{3, 100, 10_000} {
		r := rand.New(rand.NewPCG(uint64(keys), 1))
		now := pair{theirs: map[int]int{}}
		var kept []pair
		for i := range 8 * keys {
			key := r.IntN(keys)
			switch r.IntN(3) {
			case 0:
				now.ours.Delete(new(Edit), key)
				delete(now.theirs, key)
			default:
				now.ours.Set(new(Edit), key, i)
				now.theirs[key] = i
			}
			if got, want := now.ours.Get(key), now.theirs[key]; got != want {
				t.Fatalf("%d is %d, want %d", key, got, want)
			}
			if i%(keys/2+1) == 0 {
				kept = append(kept, pair{now.ours, maps.Clone(now.theirs)})
			}
		}
		for _, p := range kept {
			if got := maps.Collect(p.ours.All()); !maps.Equal(got, p.theirs) || p.ours.Len() != len(p.theirs) {
				t.Errorf("a map of %d entries has become another", len(p.theirs))
			}
		}
		for key := range keys {
			now.ours.Delete(new(Edit), key)
		}
		if now.ours.Len() != 0 || now.ours.Has(1) {
			t.Errorf("%d entries are left", now.ours.Len())
		}
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	var m Map[string, int]
	edit := new(Edit)
	for i := range 1000 {
		m.Set(edit, string(rune('a'+i)), i)
	}
	if n := testing.AllocsPerRun(100, func() { _ = m.Get("b") }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func BenchmarkSet(b *testing.B) {
	const size = 100_000
	var m Map[int, *int]
	edit := new(Edit)
	for i := range size {
		m.Set(edit, i, nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Set(new(Edit), i%size, nil)
	}
}

func BenchmarkGet(b *testing.B) {
	const size = 100_000
	var m Map[int, *int]
	edit := new(Edit)
	for i := range size {
		m.Set(edit, i, nil)
	}
	for i := 0; b.Loop(); i++ {
		_ = m.Get(i % size)
	}
}
