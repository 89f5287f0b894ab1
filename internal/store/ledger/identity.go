package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/replicas"
)

const (
	// Bucket holds the identity, and the record that the servers share.
	Bucket = "GLOWPLUG"

	identityStream  = "KV_" + Bucket
	identitySubject = "$KV." + Bucket + ".identity"
	identityVersion = 1
	// lookTimeout bounds the questions how the buckets are.
	lookTimeout = time.Second
)

var (
	// errTaken says that somebody else wrote the identity first.
	errTaken = errors.New("somebody else wrote it at the same time")
	// errNoLeader says that the answer came from a server that cannot know.
	errNoLeader = errors.New("the stream has no leader at the moment")
)

// identity is what a store says about itself.
type identity struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	// Buckets are those that exist, each with the revision that it has reached.
	Buckets map[string]uint64 `json:"buckets"`
}

func newIdentity() identity {
	return identity{Version: identityVersion, ID: rand.Text(), Created: time.Now().UTC(), Buckets: map[string]uint64{}}
}

// found is a bucket as NATS has it.
type found struct {
	exists   bool
	unknown  bool // no server that could know has answered
	revision uint64
	messages uint64
	created  time.Time
}

// sight is what NATS holds.
type sight struct {
	identity *identity // nil: there is none
	revision uint64    // of the identity's key
	buckets  map[string]found
	dropped  bool // the identity names buckets of which nothing is expected
	// restoring is since when a backup is restored into the store; "": none is.
	restoring string
}

// read reads a key of the bucket; its revision is 0 where there is none.
func read(ctx context.Context, js jetstream.JetStream, subject string) (content []byte, revision uint64, err error) {
	stream, err := js.Stream(ctx, identityStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if !replicas.Led(stream.CachedInfo()) {
		return nil, 0, errNoLeader
	}
	raw, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return raw.Data, raw.Sequence, nil
}

// readIdentity reads the identity; nil where there is none.
func readIdentity(ctx context.Context, js jetstream.JetStream) (*identity, uint64, error) {
	content, revision, err := read(ctx, js, identitySubject)
	if err != nil || revision == 0 {
		return nil, 0, err
	}
	var id identity
	if err := json.Unmarshal(content, &id); err != nil || id.ID == "" {
		return nil, revision, &Mismatch{
			Reason: fmt.Sprintf("the identity of the store, key identity of bucket %s, cannot be read", Bucket),
			Remedy: "restore NATS from a backup; or stop the servers, delete the bucket " + Bucket +
				" and run `glowplug store adopt`",
		}
	}
	if id.Version != identityVersion {
		return nil, 0, fmt.Errorf(
			"the identity of the store has version %d, this program knows %d: it was written by another release",
			id.Version, identityVersion)
	}
	return &id, revision, nil
}

// writeIdentity stores the identity if its key still has the revision expect; 0:
// if there is none. errTaken says that it has not.
func writeIdentity(ctx context.Context, js jetstream.JetStream, id identity, expect uint64, wanted int) error {
	if expect == 0 {
		if _, err := replicas.Create(ctx, js, identityConfig(), wanted); err != nil {
			return fmt.Errorf("making the bucket %s: %w", Bucket, err)
		}
	}
	content, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return put(ctx, js, identitySubject, content, expect)
}

// put stores a key of the bucket if it still has the revision expect; 0: if there is none.
// errTaken says that it has not.
func put(ctx context.Context, js jetstream.JetStream, subject string, content []byte, expect uint64) error {
	_, err := publish(ctx, js, subject, content, expect)
	return err
}

// publish is put, and returns the new revision of the key.
func publish(
	ctx context.Context, js jetstream.JetStream, subject string, content []byte, expect uint64,
) (revision uint64, err error) {
	msg := nats.NewMsg(subject)
	msg.Data = content
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, errTaken
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func identityConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              identityStream,
		Subjects:          []string{"$KV." + Bucket + ".>"},
		Storage:           jetstream.FileStorage,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Duplicates:        2 * time.Minute,
		AllowRollup:       true,
		DenyDelete:        true,
	}
}

// lookAt asks how each bucket is. It leaves its caller half of the time there is:
// one bucket that does not answer must not keep the others from being followed.
func lookAt(ctx context.Context, js jetstream.JetStream, names []string) map[string]found {
	timeout := lookTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	buckets := map[string]found{}
	for _, name := range names {
		asking.Go(func() {
			f := ask(ctx, js, name)
			mu.Lock()
			defer mu.Unlock()
			buckets[name] = f
		})
	}
	asking.Wait()
	return buckets
}

func ask(ctx context.Context, js jetstream.JetStream, bucket string) found {
	stream, err := js.Stream(ctx, StreamOf(bucket))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return found{}
	case err != nil || !replicas.Led(stream.CachedInfo()):
		return found{unknown: true}
	}
	info := stream.CachedInfo()
	return found{exists: true, revision: info.State.LastSeq, messages: info.State.Msgs, created: info.Created}
}

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
	remedyMove = "to move the store to NATS, start without --nats-url, take a backup (`glowplug backup FILE`), and restore it " +
		"with --nats-url and a new data directory; or choose another data directory"
	remedyAway  = "point the server at the right NATS and data directory, or restore NATS from a backup"
	remedyAdopt = "; if what NATS has now is right, stop the server and run `glowplug store adopt`"
	remedyInit  = "; if the store is to begin anew and empty, stop the server and run `glowplug store init`"
)

// judge compares what a data directory knows with what NATS holds. It returns why
// the store must not be followed, or what to do with it.
func judge(r record, place Place, s sight) (verdict, *Mismatch) {
	switch {
	case s.restoring != "":
		return 0, unrestored(s.restoring)
	case r.ID != "" && r.Place == Embedded && place == External && (s.identity == nil || r.ID != s.identity.ID):
		return 0, &Mismatch{
			Reason: fmt.Sprintf("the data directory has the embedded store %s, and NATS holds %s", r.ID, holdings(s)),
			Remedy: remedyMove + remedyOf(s),
		}
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
			Remedy: remedyMove + remedyOf(s),
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

// compare looks for buckets that are missing, or are not as new as they were. A bucket that
// does not answer is left out: it cannot be followed either.
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
