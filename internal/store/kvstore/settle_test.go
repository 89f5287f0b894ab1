package kvstore

import (
	"testing"
	"time"

	"glowplug/internal/store/keylog"
)

// TestNoWriteReplacesWhatItHasNotSeen: after a conflict a write starts from the mirror's entry and expects the
// key's last revision. The key log has a revision a moment before the mirror has it; a write that took the new
// revision from one and the old entry from the other would replace a value that it has not seen: two creations
// of one object would both succeed.
func TestNoWriteReplacesWhatItHasNotSeen(t *testing.T) {
	s := New(hostKind("HOSTS"), Options{})
	put := func(rev uint64) change {
		return change{key: "ns/a", rev: rev, put: &entry{Item: Item{Key: "ns/a", Revision: rev}}}
	}
	s.contents.apply(put(5))
	s.contents.remember(put(7)) // the first step of apply
	type answer struct {
		e      *entry
		expect uint64
		ok     bool
	}
	answers := make(chan answer, 1)
	go func() {
		e, expect, ok := s.contents.entryAfter(t.Context(), "ns/a", s.contents.keys.Get("ns/a").Revision)
		answers <- answer{e, expect, ok}
	}()
	select {
	case a := <-answers:
		t.Fatalf("a write starts from revision %d and expects revision %d", a.e.Revision, a.expect)
	case <-time.After(100 * time.Millisecond):
	}
	s.contents.apply(put(7))
	if a := <-answers; !a.ok || a.e == nil || a.e.Revision != 7 || a.expect != 7 {
		t.Errorf("%+v", a)
	}
	// A tombstone is expected without an entry.
	s.contents.apply(change{key: "ns/a", rev: 9})
	if e, expect, ok := s.contents.entryAfter(t.Context(), "ns/a", s.contents.keys.Get("ns/a").Revision); e != nil || expect != 9 || !ok {
		t.Errorf("%v %d %t", e, expect, ok)
	}
	if got := s.contents.keys.Get("ns/a"); got != (keylog.Record{Revision: 9, Deleted: true}) {
		t.Errorf("%+v", got)
	}
}
