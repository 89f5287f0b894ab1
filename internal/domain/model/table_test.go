package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"glowplug/internal/domain/shardmap"
)

// TestTableAgreesWithAMap makes random edits, of one change and of several, and has every
// table on the way stay as it was.
func TestTableAgreesWithAMap(t *testing.T) {
	type pair struct {
		ours   table[int]
		theirs map[Ref]*int
	}
	r := rand.New(rand.NewPCG(7, 1))
	now := pair{theirs: map[Ref]*int{}}
	var kept []pair
	const names = 2 * chunkSize
	for i := range 40 * names {
		edit := new(shardmap.Edit)
		for range 1 + r.IntN(3) {
			ref := Ref{Namespace: "g10", Name: fmt.Sprint(r.IntN(names))}
			object := &i
			if r.IntN(2) == 0 {
				object = nil
			}
			now.ours.put(edit, ref, object)
			if now.theirs[ref] = object; object == nil {
				delete(now.theirs, ref)
			}
			if got := now.ours.get(ref); got != object {
				t.Fatalf("%s is %v, want %v", ref, got, object)
			}
		}
		if i%names == 0 {
			kept = append(kept, pair{now.ours, maps.Clone(now.theirs)})
		}
	}
	for _, p := range kept {
		if p.ours.len() != len(p.theirs) {
			t.Errorf("a table has %d objects, want %d", p.ours.len(), len(p.theirs))
		}
		for ref, want := range p.theirs {
			if got := p.ours.get(ref); got != want {
				t.Errorf("%s has become %v, it was %v", ref, got, want)
			}
		}
		if listed := slices.Collect(p.ours.all()); len(listed) != len(p.theirs) {
			t.Errorf("a table lists %d objects, want %d", len(listed), len(p.theirs))
		}
	}
	if len(now.ours.chunks) > 2 {
		t.Errorf("%d chunks for at most %d objects", len(now.ours.chunks), names)
	}
}

func TestTableListsInTheOrderOfArrival(t *testing.T) {
	var names table[string]
	var want []string
	for i := range 3 * chunkSize {
		name := fmt.Sprint(i)
		names.put(new(shardmap.Edit), Ref{Name: name}, &name)
		want = append(want, name)
	}
	var got []string
	for name := range names.all() {
		got = append(got, *name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
