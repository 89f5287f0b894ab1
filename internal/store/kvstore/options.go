package kvstore

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"glowplug/internal/store/encryption"
	"glowplug/internal/store/replicas"
)

// Options are the settings that the stores of a program share.
type Options struct {
	// Logger takes the store's messages. Nil discards them.
	Logger *slog.Logger
	// Registerer takes the store's metrics. Nil keeps none.
	Registerer prometheus.Registerer
	// Ledger remembers which buckets exist, so that a bucket which went missing
	// is never replaced by an empty one. Nil remembers for as long as the
	// process lives.
	Ledger Ledger
	// Exclusive says that no other process writes into the bucket, as with the embedded
	// server: a read then need not ask the server for its newest revision.
	Exclusive bool
	// KeyDir is the folder of the key logs, with which a store finds out at its
	// start what the bucket has lost. Empty: the store takes what it finds.
	KeyDir string
	// TombstoneLimit is how many tombstones a bucket may have before it is cleaned,
	// if it has fewer objects; 0 means 10,000.
	TombstoneLimit int
	// CleanDelay is how long a tombstone stays at least, where other servers may
	// still have to read it; 0 means 10 minutes.
	CleanDelay time.Duration
	// Writable returns why nothing must be written now: the disk, or who else may write. It is
	// called before every write. Nil: it may be.
	Writable func() error
	// Room returns why a value of so many bytes should not be written: a full disk, or
	// a quota. It is called for every write but deletes. Nil: there is always room.
	Room func(bytes int) error
	// Release gives up room that is kept for deletes, and for the reads before them:
	// more with each attempt, which counts from 0. It is called when NATS refuses one
	// for want of room, until NATS has room or Release returns false. Nil: there is none.
	Release func(ctx context.Context, js jetstream.JetStream, attempt int) bool
	// Guard returns why the store must not be touched: it is not the expected one. It is
	// called at the begin of every session, before the bucket is opened or made. Nil: it
	// may be touched.
	Guard func(ctx context.Context, js jetstream.JetStream) error
	// Cipher encrypts the values in the bucket. Nil: they are not encrypted, and values that
	// are cannot be read.
	Cipher *encryption.Cipher
	// Replicas is how many servers of a cluster hold the bucket; 0 means three where
	// the cluster has that many, else one. A bucket that has more keeps them.
	Replicas int
	// WindowBytes bounds the memory for former values, from which watches resume and
	// lists continue; 0 means MaxWindowBytes.
	WindowBytes int
	// BookmarkInterval is how often a watch that wants bookmarks gets one; 0
	// means a minute.
	BookmarkInterval time.Duration

	askedReplicas int // Replicas before the default
}

// Ledger remembers buckets over restarts.
type Ledger interface {
	// Has reports whether the bucket was ever made, or found, here.
	Has(bucket string) bool
	// Add records that it was. It returns once that is durable.
	Add(bucket string) error
}

// RevisionLedger is a Ledger that also remembers how far a bucket was. A store
// that finds its bucket behind that raises an alarm: a damaged file may have cost
// the server everything after the damage, and it does not say so.
type RevisionLedger interface {
	Ledger
	// Reached returns the revision recorded for a bucket; 0 if there is none.
	Reached(bucket string) uint64
	// Reach records that the bucket has a revision, and returns once that is
	// durable. It may be lower than the one before.
	Reach(bucket string, revision uint64) error
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Cipher == nil {
		o.Cipher = (*encryption.Keys)(nil).Of(schema.GroupResource{})
	}
	if o.Writable == nil {
		o.Writable = func() error { return nil }
	}
	o.askedReplicas, o.Replicas = o.Replicas, replicas.Wanted(o.Replicas)
	o.TombstoneLimit = cmp.Or(o.TombstoneLimit, 10_000)
	o.CleanDelay = cmp.Or(o.CleanDelay, 10*time.Minute)
	o.WindowBytes = cmp.Or(o.WindowBytes, MaxWindowBytes)
	o.BookmarkInterval = cmp.Or(o.BookmarkInterval, time.Minute)
	return o
}

// Kind describes a resource that has a bucket.
type Kind struct {
	// Bucket is the JetStream KV bucket, such as "BAREMETALHOSTS".
	Bucket string
	// Resource is the plural name, such as "baremetalhosts". Storage keys are
	// "/<resource>/<namespace>/<name>" ("/<resource>/<name>" for a cluster-scoped
	// kind); bucket keys are what follows the resource.
	Resource string
	// New and NewList give empty objects.
	New, NewList func() runtime.Object
	// Transient marks a kind whose objects may be lost without an alarm, such as events.
	Transient bool
	// Restored says what to do, beside applying it again, once a lost object is back; "": nothing.
	Restored string
	// Batched is true for a kind that PutAll writes; it needs nats-server 2.12.
	Batched bool
	// Successive is true where a key has one object after another, each with a UID of its own: the end of one
	// is no delete, and a watch has the next one as added.
	Successive bool
	// Codec is how objects are written into the bucket.
	Codec Codec
	// Upgrade returns a value that an older program has written, as this one writes it; nil: it can be read as
	// it is. It returns an error for a value that a newer program has written, and the bucket is not used then. A
	// nil Upgrade changes nothing.
	Upgrade func(value []byte) ([]byte, error)
}

// Codec writes objects as bucket values and reads them back.
type Codec interface {
	Encode(obj runtime.Object) ([]byte, error)
	Decode(value []byte, into runtime.Object) error
}

// Item is one stored value.
type Item struct {
	// Key is the bucket key, "{namespace}/{name}".
	Key string
	// Revision is the sequence in the bucket's stream: the resourceVersion.
	Revision uint64
	// Value is the stored JSON. It must not be changed.
	Value []byte
	// Foreign is true where another program has put the value into the bucket.
	Foreign bool
}

// Observer follows a bucket. Calls for one bucket come one at a time, in the
// order of revisions; a write has been observed before its writer is answered.
// They must not block.
type Observer interface {
	// Load replaces everything: it is called once the bucket has been read, and
	// again where continuity was lost.
	Load(items []Item)
	// Put is a create or an update.
	Put(item Item)
	// Delete is the end of a key, at a revision.
	Delete(key string, revision uint64)
}
