package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Survey is what an operator is shown of a store before it is taken for the truth.
type Survey struct {
	// Expected is the identity that the data directory knows, Found the one that
	// NATS has; empty where there is none.
	Expected, Found string
	// Buckets are those that exist, and those that are recorded, by name.
	Buckets []SurveyedBucket
	// Mismatch is why a server would refuse the store; nil where it would not.
	Mismatch *Mismatch
	// Kept is whether Adopt and Init keep the identity Found.
	Kept bool

	seen  sight
	place Place
}

// SurveyedBucket is one bucket of a Survey.
type SurveyedBucket struct {
	Name   string
	Exists bool
	// Objects are the keys that have a value which can be read.
	Objects int
	// Unreadable is how many keys NATS lists and cannot read.
	Unreadable int
	// Lost are the keys of objects that cannot be read, or that the data directory knows and
	// that are missing; of those in Older a former value is there, and those in Back were deleted.
	Lost, Older, Back []string
	// Revision is the one that it has, Reached the highest that was recorded.
	Revision, Reached uint64
}

// Unrestored reports whether a restore into the store was broken off: what it has is nothing.
func (s *Survey) Unrestored() bool { return s.seen.restoring != "" }

// Objects counts the objects of all buckets, those that cannot be read included.
func (s *Survey) Objects() int {
	n := 0
	for _, b := range s.Buckets {
		n += b.Objects + b.Unreadable
	}
	return n
}

// Survey reads the state of the store, and changes nothing.
func (k *Keeper) Survey(ctx context.Context, js jetstream.JetStream) (*Survey, error) {
	known, seen, err := k.look(ctx, js)
	if err != nil {
		return nil, err
	}
	s := &Survey{Expected: known.ID, seen: seen, place: k.ledger.place}
	if seen.identity != nil {
		s.Found = seen.identity.ID
	}
	_, s.Mismatch = judge(known, k.ledger.place, seen)
	s.Kept = k.isWhole(s)
	reached := expectations(known, seen)
	entries := map[string]map[string]lastMessage{}
	for _, name := range slices.Sorted(maps.Keys(seen.buckets)) {
		f := seen.buckets[name]
		if f.unknown {
			return nil, fmt.Errorf("bucket %s does not answer", name)
		}
		b := SurveyedBucket{Name: name, Exists: f.exists, Revision: f.revision, Reached: reached[name]}
		if f.messages > 0 && IsBucket(name) {
			has, unreadable, err := readEntries(ctx, js, name)
			if err != nil {
				return nil, fmt.Errorf("counting the objects of %s: %w", name, err)
			}
			b.count(has, unreadable)
			entries[name] = has
		}
		_, recorded := reached[name]
		if f.exists || recorded {
			s.Buckets = append(s.Buckets, b)
		}
	}
	return s, k.compareFormer(ctx, js, s, entries)
}

// count counts the objects of a bucket.
func (b *SurveyedBucket) count(has map[string]lastMessage, unreadable []string) {
	for _, e := range has {
		if !e.deleted {
			b.Objects++
		}
	}
	b.Unreadable, b.Lost = len(unreadable), unreadable
}

// errNothing says that there is nothing to adopt.
var errNothing = &Mismatch{
	Reason: "there is nothing to adopt: it holds neither the identity of a store nor any of our buckets",
	Remedy: "check --data-dir and --nats-url; `glowplug store init` begins a new, empty store there",
}

// Adopt takes what is stored for the truth, whatever the data directory knew, and
// returns the identity of the store. A state that other servers may know better, an
// older one or one that lacks buckets, gets a new identity: writes from now on are
// another history, and every server has to learn that.
func (k *Keeper) Adopt(ctx context.Context, js jetstream.JetStream, s *Survey) (string, error) {
	if err := s.CheckAdopt(); err != nil {
		return "", err
	}
	return k.acceptSurvey(ctx, js, s)
}

// CheckAdopt returns the reason why Adopt refuses what is stored.
func (s *Survey) CheckAdopt() error {
	if s.seen.restoring != "" {
		return unrestored(s.seen.restoring)
	}
	if s.seen.identity == nil && existing(s.seen) == 0 {
		return errNothing
	}
	return nil
}

// AcceptLoss is Adopt for a store that has lost something. What is back although it was deleted is deleted again.
func (k *Keeper) AcceptLoss(ctx context.Context, js jetstream.JetStream, s *Survey) (string, error) {
	if err := s.CheckLoss(); err != nil {
		return "", err
	}
	for _, b := range s.Buckets {
		if len(b.Back) == 0 {
			continue
		}
		kv, err := js.KeyValue(ctx, b.Name)
		if err != nil {
			return "", err
		}
		for _, key := range b.Back {
			if err := kv.Delete(ctx, key); err != nil {
				return "", fmt.Errorf("deleting %s of bucket %s again: %w", key, b.Name, err)
			}
		}
	}
	return k.acceptSurvey(ctx, js, s)
}

// CheckLoss returns the reason why AcceptLoss refuses what is stored. An embedded store lies in the data directory:
// it has another identity where the command was killed before it recorded the new one.
func (s *Survey) CheckLoss() error {
	if s.place == External && s.Expected != "" && s.Found != "" && s.Expected != s.Found {
		return &Mismatch{Reason: s.Mismatch.Reason, Remedy: remedyAway + remedyAdopt}
	}
	for _, b := range s.Buckets {
		if b.Unreadable > 0 { // NATS takes no other value of them
			return &Mismatch{
				Reason: fmt.Sprintf("NATS lists %d objects of bucket %s, and cannot read them", b.Unreadable, b.Name),
				Remedy: "restore NATS from a backup; or stop its server, remove msgs/index.db from the folder of the stream " +
					StreamOf(b.Name) + ", and start it: it removes what it cannot read, and what is behind that in the file",
			}
		}
	}
	return s.CheckAdopt()
}

// isWhole reports whether a store has an identity and all that was ever known of it.
func (k *Keeper) isWhole(s *Survey) bool {
	if s.seen.identity == nil || s.Mismatch == nil {
		return s.seen.identity != nil
	}
	_, m := judge(newRecord(k.ledger.place), k.ledger.place, s.seen)
	return m == nil && s.Expected != s.Found
}

// Init begins a new store where nothing is stored, and returns its identity. One
// that another server has begun, and that is still empty, is joined.
func (k *Keeper) Init(ctx context.Context, js jetstream.JetStream, s *Survey) (string, error) {
	if err := s.CheckInit(); err != nil {
		return "", err
	}
	return k.acceptSurvey(ctx, js, s)
}

// CheckInit returns the reason why Init refuses what is stored.
func (s *Survey) CheckInit() error {
	if s.seen.restoring != "" {
		return unrestored(s.seen.restoring)
	}
	n := s.Objects()
	if n == 0 {
		return nil
	}
	m := &Mismatch{
		Reason: fmt.Sprintf("this is no place for a new store: there are %d objects", n),
		Remedy: "`glowplug store adopt` takes them as they are; if they are worth nothing, remove the data directory's " +
			"nats/, or delete the KV buckets of an external NATS",
	}
	if s.Mismatch == nil && s.Expected == s.Found {
		m.Remedy = "it is what the server expects to find: start it"
	}
	return m
}

// acceptSurvey writes the identity of a whole store, else a new one, with the buckets
// as they are, first to the store and then to the data directory.
func (k *Keeper) acceptSurvey(ctx context.Context, js jetstream.JetStream, s *Survey) (string, error) {
	id := newIdentity()
	if s.Kept {
		id = *s.seen.identity
	}
	id.Buckets = revisions(s.seen)
	err := writeIdentity(ctx, js, id, s.seen.revision, k.wanted())
	if errors.Is(err, errTaken) {
		return "", &Mismatch{Reason: "another server wrote the identity of the store at the same time",
			Remedy: "run the command again"}
	}
	if err != nil {
		return "", err
	}
	next := newRecord(k.ledger.place)
	next.ID, next.Revisions = id.ID, id.Buckets
	next.Buckets = slices.AppendSeq(next.Buckets, maps.Keys(id.Buckets))
	slices.Sort(next.Buckets)
	return id.ID, k.ledger.replace(next)
}
