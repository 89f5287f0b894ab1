package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
)

const (
	// recordInterval is how often the revisions reached are written into the store.
	recordInterval = 30 * time.Second
	// callTimeout bounds one survey of the store.
	callTimeout = 5 * time.Second
	// alarmAfter is how long a mismatch lasts before it is an alarm. It is refused
	// at once; but a cluster that has just started, or healed, may say for a moment
	// that it has no such stream, or that it is behind.
	alarmAfter = 3 * time.Second
	// confirmInterval is between two questions that confirm a mismatch.
	confirmInterval = 500 * time.Millisecond
	// guardTries bounds how often others may write the identity in between.
	guardTries = 5
)

// errReconnected says that the answers came from two servers, perhaps.
var errReconnected = errors.New("the connection to NATS was lost while the store was looked at")

// KeeperOptions are the settings of a Keeper.
type KeeperOptions struct {
	// Buckets are those that this program keeps its objects in.
	Buckets []string
	// Exempt reports whether a bucket is known to be missing, or was created again: nothing
	// is expected of it. Nil: none is.
	Exempt func(bucket string) bool
	// Former returns what the files of the data directory say of a bucket, for Survey. Nil:
	// nothing is known.
	Former func(bucket string) Former
	// Replicas is how many servers of a cluster hold the identity; 0: the default.
	Replicas int
	// Logger takes the alarm. Nil discards it.
	Logger *slog.Logger
	// Registerer takes the metric. Nil keeps none.
	Registerer prometheus.Registerer
}

// Keeper compares the store with a data directory's ledger.
type Keeper struct {
	ledger *Ledger
	opts   KeeperOptions
	asking singleflight.Group

	mu       sync.Mutex
	mismatch *Mismatch // the last answer of Guard; nil: none
	since    time.Time // the first of the mismatches in a row
	alarmed  string    // the last that was logged
}

// NewKeeper makes the keeper of a data directory.
func NewKeeper(l *Ledger, opts KeeperOptions) *Keeper {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Exempt == nil {
		opts.Exempt = func(string) bool { return false }
	}
	k := &Keeper{ledger: l, opts: opts}
	if opts.Registerer != nil {
		opts.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_store_identity_mismatch",
			Help: "1 while what NATS holds is not the store of this data directory, or not all of it: nothing is followed or " +
				"written.",
		}, func() float64 {
			if k.alarming() {
				return 1
			}
			return 0
		}))
	}
	return k
}

// Guard says whether the store may be followed and written. It gives a store that
// is new an identity, and a data directory that is new the store's. A *Mismatch
// says that the store must not be touched; any other error is no news of it. Calls
// at the same time, on the same connection, share one answer.
func (k *Keeper) Guard(ctx context.Context, js jetstream.JetStream) error {
	connection := js.Conn().Stats().Reconnects
	_, err, _ := k.asking.Do(strconv.FormatUint(connection, 10), func() (any, error) {
		if err := k.guard(ctx, js); err != nil {
			return nil, err
		}
		if js.Conn().Stats().Reconnects != connection {
			return nil, errReconnected
		}
		return nil, nil
	})
	return err
}

func (k *Keeper) guard(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for range guardTries {
		known, seen, err := k.look(ctx, js)
		if err != nil {
			return k.noNews(err)
		}
		what, mismatch := judge(known, k.ledger.place, seen)
		switch {
		case seen.identity == nil && known.ID != "" && k.opts.Exempt(Bucket):
			// Only the bucket with the identity is damaged, and is created again.
		case mismatch != nil:
			return k.refuse(mismatch, time.Now())
		case what == follow:
			k.accept()
			if seen.dropped {
				// At once: what has taken the place of a bucket begins at its first revision, and
				// would be older than it was as soon as it is no exemption any more.
				if err := k.update(ctx, js, known, seen); err != nil {
					k.opts.Logger.Warn("the identity of the store still names a bucket that was set aside; "+
						"it is written again within a minute", "error", err)
				}
			}
			return nil
		case what == join:
			if err := k.ledger.join(seen.identity.ID); err != nil {
				return err
			}
			k.opts.Logger.Info("this data directory belongs to the store from now on", "store", seen.identity.ID, "dir",
				k.ledger.dir)
			k.accept()
			return nil
		}
		id := newIdentity()
		if known.ID != "" {
			id.ID = known.ID
		}
		id.Buckets = revisions(seen)
		if err := writeIdentity(ctx, js, id, seen.revision, k.wanted()); err != nil && !errors.Is(err, errTaken) {
			return k.noNews(err)
		}
		// Whoever was first, its identity is taken in the next round.
	}
	return errTaken
}

// look reads what the data directory knows, and then what NATS holds: the former
// must not be newer than the latter, or a store that grows would look older.
func (k *Keeper) look(ctx context.Context, js jetstream.JetStream) (record, sight, error) {
	known := k.ledger.snapshot()
	s, err := question.Ask(ctx, func(ctx context.Context) (s sight, err error) {
		if s.identity, s.revision, err = readIdentity(ctx, js); err != nil {
			return s, err
		}
		since, _, err := read(ctx, js, restoringSubject)
		s.restoring = string(since)
		return s, err
	})
	if err != nil {
		return known, s, err
	}
	s.dropped = k.exempt(&known, s.identity)
	s.buckets = lookAt(ctx, js, k.names(known, s.identity))
	return known, s, nil
}

// exempt takes out of what is known the buckets of which nothing is expected. It
// reports whether the identity has named one.
func (k *Keeper) exempt(known *record, id *identity) (dropped bool) {
	*known = known.clone()
	known.Buckets = slices.DeleteFunc(known.Buckets, k.opts.Exempt)
	drop := func(bucket string, _ uint64) bool { return k.opts.Exempt(bucket) }
	maps.DeleteFunc(known.Revisions, drop)
	if id == nil {
		return false
	}
	named := len(id.Buckets)
	maps.DeleteFunc(id.Buckets, drop)
	return len(id.Buckets) < named
}

// names are the buckets that matter: ours, and those that are recorded.
func (k *Keeper) names(known record, id *identity) []string {
	names := slices.Concat(k.opts.Buckets, known.Buckets)
	if id != nil {
		names = slices.AppendSeq(names, maps.Keys(id.Buckets))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// revisions returns the existing buckets with their revisions.
func revisions(s sight) map[string]uint64 {
	m := map[string]uint64{}
	for name, f := range s.buckets {
		if f.exists {
			m[name] = f.revision
		}
	}
	return m
}

func (k *Keeper) wanted() int {
	if k.ledger.place == Embedded {
		return 1
	}
	return replicas.Wanted(k.opts.Replicas)
}

// noNews passes on an error. One that says that the identity cannot be read is an
// alarm as well.
func (k *Keeper) noNews(err error) error {
	var m *Mismatch
	if errors.As(err, &m) {
		return k.refuse(m, time.Now())
	}
	return fmt.Errorf("reading the identity of the store: %w", err)
}

// refuse notes a mismatch that was first seen at a time, and raises the alarm once
// it has lasted.
func (k *Keeper) refuse(m *Mismatch, since time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mismatch = m
	if k.since.IsZero() {
		k.since = since
	}
	if time.Since(k.since) >= alarmAfter && k.alarmed != m.Reason {
		k.alarmed = m.Reason
		k.opts.Logger.Error("the store is not followed, and nothing is written: "+m.Reason, "dir", k.ledger.dir, "remedy",
			m.Hint())
	}
	return m
}

func (k *Keeper) accept() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.alarmed != "" {
		k.opts.Logger.Info("the store is again the one of this data directory")
	}
	k.mismatch, k.since, k.alarmed = nil, time.Time{}, ""
}

func (k *Keeper) alarming() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.alarmed != ""
}

// Mismatch says why the store is not followed; nil where nothing speaks against it.
func (k *Keeper) Mismatch() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mismatch == nil {
		return nil
	}
	return k.mismatch
}

// Run records at intervals, in the store, which revisions this server has seen, until
// ctx ends, so that every server notices a store that is older.
func (k *Keeper) Run(ctx context.Context, js jetstream.JetStream) {
	ticker := time.NewTicker(recordInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := k.record(ctx, js); err != nil && ctx.Err() == nil {
			k.opts.Logger.Debug("the revisions reached are not recorded in the store", "error", err)
		}
	}
}

// record brings the identity's list of buckets up to date. A store that is not the
// expected one any more is left alone, and is an alarm as in Guard. It is asked
// again before that: a server that was the leader, or has just come back, gives a
// wrong answer for a moment.
func (k *Keeper) record(ctx context.Context, js jetstream.JetStream) error {
	for began := time.Now(); ; {
		err := k.recordOnce(ctx, js)
		var m *Mismatch
		switch {
		case !errors.As(err, &m):
			return err
		case time.Since(began) >= alarmAfter:
			return k.refuse(m, began)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(confirmInterval):
		}
	}
}

func (k *Keeper) recordOnce(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known, seen, err := k.look(ctx, js)
	if err != nil {
		return err
	}
	switch what, mismatch := judge(known, k.ledger.place, seen); {
	case mismatch != nil:
		return mismatch
	case what != follow:
		return nil
	}
	k.accept()
	if err := k.update(ctx, js, known, seen); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, identityStream)
	if err != nil {
		return err
	}
	_, err = replicas.Raise(ctx, js, stream.CachedInfo(), k.wanted())
	return err
}

// update writes the identity with the buckets of now, if it names others.
func (k *Keeper) update(ctx context.Context, js jetstream.JetStream, known record, seen sight) error {
	next := *seen.identity
	next.Buckets = expectations(known, seen)
	if !seen.dropped && maps.Equal(next.Buckets, seen.identity.Buckets) {
		return nil
	}
	if err := k.ledger.Writable(); err != nil {
		return err
	}
	return writeIdentity(ctx, js, next, seen.revision, k.wanted())
}
