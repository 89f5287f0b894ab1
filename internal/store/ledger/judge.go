package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is what to do with a store that nothing speaks against.
type verdict int

const (
	// follow: it is the store of this data directory.
	follow verdict = iota
	// join: the data directory is new, or of a release without identities, and
	// takes the identity of the store.
	join
	// begin: so is the store, which is given one.
	begin
)

// The remedies of a mismatch.
const (
	remedyAway  = "point the server at the right NATS and data directory, or restore NATS from a backup"
	remedyAdopt = "; if what NATS has now is right, stop the server and run `glowplug store adopt`"
	remedyInit  = "; if the store is to begin anew and empty, stop the server and run `glowplug store init`"
)

// judge compares what a data directory knows with what NATS holds. It returns why
// the store must not be followed, or what to do with it.
func judge(r record, place Place, s sight) (verdict, *Mismatch) {
	switch {
	case r.ID != "" && s.identity == nil:
		return 0, &Mismatch{
			Reason: fmt.Sprintf("NATS holds %s, and the data directory belongs to store %s", holdings(s), r.ID),
			Remedy: remedyAway + remedyOf(s),
		}
	case r.ID != "" && r.ID != s.identity.ID:
		return 0, &Mismatch{
			Reason: fmt.Sprintf("NATS holds store %s, and the data directory belongs to store %s", s.identity.ID, r.ID),
			Remedy: remedyAway + remedyAdopt,
		}
	case r.ID == "" && place == External && !r.isNew():
		return 0, &Mismatch{
			Reason: fmt.Sprintf("NATS holds %s, and the data directory belongs to an embedded store", holdings(s)),
			Remedy: "start without --nats-url, or choose another data directory" + remedyOf(s),
		}
	}
	if m := compare(r, s); m != nil {
		return 0, m
	}
	switch {
	case s.identity == nil:
		return begin, nil
	case r.ID == "" || r.Place != place:
		return join, nil
	}
	return follow, nil
}

// compare looks for buckets that are missing, or are not as new as they were. One
// that does not answer is not judged: nobody can follow it either.
func compare(r record, s sight) *Mismatch {
	expected := expectations(r, s)
	var missing, older []string
	for name, reached := range expected {
		switch f := s.buckets[name]; {
		case f.unknown:
		case !f.exists:
			missing = append(missing, name)
		case f.revision < reached:
			older = append(older, fmt.Sprintf("%s is at revision %d and had reached %d", name, f.revision, reached))
		}
	}
	slices.Sort(missing)
	slices.Sort(older)
	switch {
	case len(missing) > 0:
		return &Mismatch{
			Reason: fmt.Sprintf("the store %s lacks buckets that existed: %s", nameOf(r, s), strings.Join(missing, ", ")),
			Remedy: "restore them from a backup" + remedyAdopt,
		}
	case len(older) > 0:
		return &Mismatch{
			Reason: fmt.Sprintf("the store %s is older than it was: %s", nameOf(r, s), strings.Join(older, "; ")),
			Remedy: "restore what is newer, if there is such a backup" + remedyAdopt,
		}
	}
	return nil
}

// expectations returns the buckets that must exist, with the revisions that they had
// reached: what the data directory knows and what the store says itself.
func expectations(r record, s sight) map[string]uint64 {
	expected := map[string]uint64{}
	for _, name := range r.Buckets {
		expected[name] = r.Revisions[name]
	}
	if s.identity != nil {
		for name, reached := range s.identity.Buckets {
			expected[name] = max(expected[name], reached)
		}
	}
	return expected
}

// nameOf is the identity of the store for a message.
func nameOf(r record, s sight) string {
	switch {
	case s.identity != nil:
		return s.identity.ID
	case r.ID != "":
		return r.ID
	}
	return "(without an identity)"
}

// holdings describes what NATS holds.
func holdings(s sight) string {
	if s.identity != nil {
		return "store " + s.identity.ID
	}
	if n := existing(s); n > 0 {
		return fmt.Sprintf("%d of our buckets without the identity of a store", n)
	}
	return "no store"
}

func existing(s sight) int {
	n := 0
	for _, f := range s.buckets {
		if f.exists {
			n++
		}
	}
	return n
}

// remedyOf is the command for what NATS holds.
func remedyOf(s sight) string {
	if s.identity == nil && existing(s) == 0 {
		return remedyInit
	}
	return remedyAdopt
}
