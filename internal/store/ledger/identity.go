package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/replicas"
)

const (
	// Bucket holds the identity, and nothing else.
	Bucket = "GLOWPLUG"

	identityStream  = "KV_" + Bucket
	identitySubject = "$KV." + Bucket + ".identity"
	identityVersion = 1
	// lookTimeout bounds the questions how the buckets are.
	lookTimeout = time.Second
)

var (
	// errTaken says that somebody else wrote the identity first.
	errTaken = errors.New("somebody else wrote the identity at the same time")
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
	unknown  bool // nobody who could know has answered
	revision uint64
	messages uint64
}

// sight is what NATS holds.
type sight struct {
	identity *identity // nil: there is none
	revision uint64    // of the identity's key
	buckets  map[string]found
	dropped  bool // the identity names buckets of which nothing is expected
}

// readIdentity reads the identity; nil where there is none.
func readIdentity(ctx context.Context, js jetstream.JetStream) (*identity, uint64, error) {
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
	raw, err := stream.GetLastMsgForSubject(ctx, identitySubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var id identity
	if err := json.Unmarshal(raw.Data, &id); err != nil || id.ID == "" {
		return nil, raw.Sequence, &Mismatch{
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
	return &id, raw.Sequence, nil
}

// writeIdentity stores the identity if its key still has the revision expect; 0:
// if there is none. errTaken says that it has not.
func writeIdentity(ctx context.Context, js jetstream.JetStream, id identity, expect uint64, wanted int) error {
	if expect == 0 {
		if _, err := replicas.Create(ctx, js, identityConfig(), wanted); err != nil {
			return fmt.Errorf("making the bucket %s: %w", Bucket, err)
		}
	}
	msg := nats.NewMsg(identitySubject)
	var err error
	if msg.Data, err = json.Marshal(id); err != nil {
		return err
	}
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	_, err = js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return errTaken
	}
	return err
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
	state := stream.CachedInfo().State
	return found{exists: true, revision: state.LastSeq, messages: state.Msgs}
}
